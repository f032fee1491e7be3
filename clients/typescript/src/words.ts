/**
 * Exact draws from 64-bit words. A word is two 32-bit numbers, the upper one first.
 *
 * How many words are taken depends on the plan alone, never on the answer (but for numbers below a
 * bound, whose rejected words know nothing of it either).
 */
export interface Words {
  /** The next words, in an array that the caller owns and wipes. */
  take(count: number): Uint32Array;
}

const AT_ONCE = 16384; // 65,536 bytes: what `getRandomValues` gives at most.

/** Words of the operating system. */
export const secureWords: Words = {
  take(count) {
    const words = new Uint32Array(2 * count);
    for (let at = 0; at < words.length; at += AT_ONCE) crypto.getRandomValues(words.subarray(at, at + AT_ONCE));
    return words;
  },
};

/** A chance k/2⁶⁴ as the two halves of k; the upper one is 2³² where it is certain. */
export interface Chance {
  readonly high: number;
  readonly low: number;
}

export function chanceOf(k: bigint): Chance {
  return { high: Number(k >> 32n), low: Number(k & 0xffff_ffffn) };
}

/** Coins that are 1 with a chance: a word each, and no branch on what it is. */
export function coins(words: Words, chance: Chance, count: number): Uint8Array {
  const found = new Uint8Array(count);
  for (let start = 0; start < count; start += AT_ONCE) {
    const many = Math.min(AT_ONCE, count - start);
    const drawn = words.take(many);
    for (let at = 0; at < many; at++) {
      // The borrow of a subtraction of 64 bits: word < k.
      const borrow = Number(drawn[2 * at + 1] < chance.low);
      found[start + at] = Number(drawn[2 * at] - chance.high - borrow < 0);
    }
    drawn.fill(0);
  }
  return found;
}

/** Uniform numbers below a bound of at most 2²¹, in the order in which words are kept. */
export function below(words: Words, bound: number, count: number): number[] {
  const limit = chanceOf(((1n << 64n) / BigInt(bound)) * BigInt(bound));
  const found: number[] = [];
  while (found.length < count) {
    const drawn = words.take(Math.min(count - found.length, AT_ONCE));
    for (let at = 0; at < drawn.length; at += 2) {
      const [high, low] = [drawn[at], drawn[at + 1]];
      const kept = high < limit.high || (high === limit.high && low < limit.low);
      // Below 2⁵³ all along, so that each step is exact.
      if (kept) found.push(((high % bound) * 2 ** 32 + low) % bound);
    }
    drawn.fill(0);
  }
  return found;
}

/** The whole number below a height of at least 0, or by chance the next: a word. */
export function roundByChance(words: Words, height: number): number {
  const full = Math.floor(height);
  // Both differences are exact; the chance is cut to a whole number of 2⁻⁶⁴.
  const chance = (height - full) * 2 ** 64;
  const high = Math.floor(chance / 2 ** 32);
  const low = Math.floor(chance - high * 2 ** 32);
  return full + coins(words, { high, low }, 1)[0];
}

/** Put a list in an order that is exactly uniform (Fisher and Yates). */
export function shuffle<Item>(words: Words, items: Item[]): Item[] {
  for (let left = items.length; left > 1; left--) {
    const [other] = below(words, left, 1);
    [items[left - 1], items[other]] = [items[other], items[left - 1]];
  }
  return items;
}
