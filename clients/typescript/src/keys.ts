/** Key lists: the keys of a party for one plan, signed with the identity that the plan names. */

import { equal, hex, joined, sha256, unhex, utf8, type Bytes } from "./bytes.ts";
import type { Plan } from "./plan.ts";

export interface SealingKey {
  readonly id: number;
  readonly public: Bytes;
  /** How every envelope for it starts: its id, and the three algorithms. */
  readonly head: Bytes;
  /** Its id, and as much of its digest as fits into 32 bytes. */
  readonly name: Bytes;
}

export interface KeyList {
  readonly serial: bigint;
  /** The first one is the one to seal for. */
  readonly keys: readonly SealingKey[];
  readonly digest: string;
}

const FORMAT = utf8("chafkey1");
const WORDS = utf8("chaffinch keys\0");
const HEAD = 49;
const SIGNATURE = 64;
const X25519 = "002000010001";
/** Bytes of a key with its head, by its algorithms: of X25519, and of X25519 with ML-KEM-768. */
const LENGTHS: Readonly<Record<string, number>> = { [X25519]: 39, "647a00010001": 1223 };
/** The most that the lists of nine parties have. */
export const LONGEST_LISTS = 9 * (HEAD + 255 * 1223 + SIGNATURE);

/** Thrown for bytes that are no lists; the client says what that means. */
export class NotTheKeys extends Error {}

/** The lists of all parties, one behind the other; they are discarded whole if anything is wrong. */
export async function readKeyLists(content: Bytes, plan: Pick<Plan, "id" | "parties">): Promise<KeyList[]> {
  const lists: KeyList[] = [];
  let left = content;
  for (const { identity } of plan.parties) {
    const end = lengthOf(left);
    lists.push(await readKeyList(left.subarray(0, end) as Bytes, plan.id, identity));
    left = left.subarray(end) as Bytes;
  }
  if (left.length) throw new NotTheKeys("another length");
  return lists;
}

/** Where each key of a list ends: its length follows from its KEM. */
function endsOf(content: Bytes): number[] {
  const ends: number[] = [];
  let at = HEAD;
  for (let left = content[HEAD - 1]; left > 0; left--) {
    const suite = hex(content.subarray(at + 1, at + 7));
    if (!Object.hasOwn(LENGTHS, suite)) throw new NotTheKeys("another suite");
    ends.push((at += LENGTHS[suite]));
  }
  return ends;
}

function lengthOf(content: Bytes): number {
  return (endsOf(content).at(-1) ?? 0) + SIGNATURE;
}

async function readKeyList(content: Bytes, planId: string, identity: string): Promise<KeyList> {
  if (content.length < HEAD + SIGNATURE || content.length !== lengthOf(content)) throw new NotTheKeys("another length");
  const body = content.subarray(0, -SIGNATURE);
  const signer = await crypto.subtle.importKey("raw", unhex(identity), { name: "Ed25519" }, false, ["verify"]);
  const signature = content.subarray(-SIGNATURE) as Bytes;
  if (!(await crypto.subtle.verify({ name: "Ed25519" }, signer, signature, joined([WORDS, body])))) throw new NotTheKeys("no signature");
  if (!equal(body.subarray(0, 8), FORMAT) || hex(body.subarray(8, 40)) !== planId) throw new NotTheKeys("another plan");
  const keys: SealingKey[] = [];
  const ends = endsOf(body);
  for (const [place, end] of ends.entries()) {
    const key = body.slice(ends[place - 1] ?? HEAD, end);
    const name = joined([key.subarray(0, 1), (await sha256(key)).subarray(0, 31)]);
    keys.push({ id: key[0], public: key.slice(7), head: key.slice(0, 7), name });
  }
  if (new Set(keys.map((key) => key.id)).size < keys.length) throw new NotTheKeys("one id twice");
  if (hex(keys[0].head.subarray(1)) !== X25519) throw new NotTheKeys("another suite");
  const serial = new DataView(body.buffer, body.byteOffset).getBigUint64(40);
  return { serial, keys, digest: hex(await sha256(content)) };
}
