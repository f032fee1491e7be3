/** Sealing: a report becomes one envelope for the first hop, of the one length of its plan. */

import { bigEndian, joined, utf8, type Bytes } from "./bytes.ts";
import { freshEphemeral, HpkeSealer, type NewEphemeral } from "./hpke.ts";
import type { SealingKey } from "./keys.ts";
import { dummies, type Plan } from "./plan.ts";
import { shuffle, type Words } from "./words.ts";

const DUMMY = 0xffff_ffff;
const VERSION = 2;
const NAME = 32;

/** What seals for one party: every envelope starts with the head of its key. */
interface Layer {
  readonly head: Bytes;
  readonly sealer: HpkeSealer;
}

export type Sealing = Pick<Plan, "id" | "slots">;

function layerOf(plan: Sealing, round: number, name: string, key: SealingKey, behind: Bytes, fresh: NewEphemeral): Promise<Layer> {
  const label = `application/vnd.chaffinch;layer=${name};plan=${plan.id};round=${round} request`;
  const info = joined([utf8(`${label}\0`), key.head, behind]);
  return HpkeSealer.of(key.public, info, fresh).then((sealer) => ({ head: key.head, sealer }));
}

async function envelope(layer: Layer, content: Bytes): Promise<Bytes> {
  return joined([layer.head, await layer.sealer.seal(content)]);
}

/** The names of the keys of all who open, one behind the other. */
export function routeOf(keys: readonly SealingKey[]): Bytes {
  return joined(keys.map((key) => key.name));
}

/** The route that a payload was sealed for: the names of the keys behind the first hop. */
export function namesIn(payload: Bytes, parties: number): Bytes[] {
  return Array.from({ length: parties - 1 }, (_, at) => payload.slice(1 + at * NAME, 1 + (at + 1) * NAME));
}

/** The codes of a report with its dummies, in a random order. */
export function itemsOf(plan: Plan, codes: readonly number[], words: Words): number[] {
  // By its place an item would tell which slot it comes from.
  return shuffle(words, [...codes, ...Array<number>(dummies(plan, codes)).fill(DUMMY)]);
}

/** What is in the outer envelope: every item sealed for the analyzer, then for the hops before it. */
export async function payloadOf(
  plan: Sealing,
  round: number,
  keys: readonly SealingKey[],
  items: readonly number[],
  fresh = freshEphemeral,
): Promise<Bytes> {
  const layers: Layer[] = [];
  for (let at = keys.length - 1; at > 0; at--) {
    const name = at === keys.length - 1 ? "analyzer" : `hop${at + 1}`;
    layers.push(await layerOf(plan, round, name, keys[at], routeOf(keys.slice(at + 1)), fresh));
  }
  const sealed: Bytes[] = [];
  for (const code of items) {
    let item = bigEndian(code, 4);
    for (const layer of layers) item = await envelope(layer, item);
    sealed.push(item);
  }
  const padding = new Uint8Array((plan.slots - items.length) * (4 + 55 * (keys.length - 1)));
  return joined([bigEndian(VERSION, 1), routeOf(keys.slice(1)), bigEndian(items.length, 4), ...sealed, padding]);
}

/** A payload in an envelope for the first hop. */
export async function wrap(plan: Sealing, round: number, key: SealingKey, payload: Bytes, fresh = freshEphemeral): Promise<Bytes> {
  return envelope(await layerOf(plan, round, "hop1", key, new Uint8Array(0), fresh), payload);
}
