import type { Words } from "../src/words.ts";

const MASK = (1n << 64n) - 1n;
const EDGES = [0n, MASK, 1n << 63n, 1n << 62n];

/** Words of SplitMix64, of which every 13th is one of four edges. */
export class Seeded implements Words {
  taken = 0;
  #state: bigint;

  constructor(seed: number) {
    this.#state = BigInt(seed);
  }

  take(count: number): Uint32Array {
    const found = new Uint32Array(2 * count);
    for (let at = 0; at < found.length; at += 2) {
      const word = this.#next();
      found[at] = Number(word >> 32n);
      found[at + 1] = Number(word & 0xffff_ffffn);
    }
    return found;
  }

  #next(): bigint {
    this.#state = (this.#state + 0x9e3779b97f4a7c15n) & MASK;
    let mixed = ((this.#state ^ (this.#state >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    mixed = ((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn) & MASK;
    mixed ^= mixed >> 31n;
    return ++this.taken % 13 ? mixed : EDGES[Number(mixed % 4n)];
  }
}

/** Words that are given, each as one number of 64 bits. */
export class Given implements Words {
  #words: bigint[];

  constructor(words: Iterable<bigint | string>) {
    this.#words = Array.from(words, BigInt);
  }

  get left(): number {
    return this.#words.length;
  }

  take(count: number): Uint32Array {
    if (count > this.#words.length) throw new RangeError("no words are left");
    const found = this.#words.splice(0, count);
    return Uint32Array.from(found.flatMap((word) => [Number(word >> 32n), Number(word & 0xffff_ffffn)]));
  }
}
