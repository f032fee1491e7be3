/** How answers are protected: for each protocol of a plan, which codes an answer is sent as. */

import type { Bursts } from "./bursts.ts";
import type { JsonObject } from "./canonical.ts";
import { UnsupportedPlan } from "./errors.ts";
import { grains } from "./exact.ts";
import { fields, flag, requireFit, whole } from "./reading.ts";
import { below, chanceOf, coins, roundByChance, type Chance, type Words } from "./words.ts";

/** What an answer looks like to a protocol: a bit, one of several, several bits, or a share. */
export type Shape = "bit" | "choice" | "flags" | "number";

/** The number of an answer, those of the flags that hold, or a share from 0 to 1. */
export type Prepared = number | readonly number[];

export interface Encoder {
  /** How many codes there are. */
  readonly codes: number;
  /** How many messages an answer has at most. */
  readonly slots: number;
  /** Whether their number follows the noise; otherwise empty slots are filled up. */
  readonly varies: boolean;
  draw(answer: Prepared, words: Words): number[];
  /** The tables of noise that is cut for many devices, where there is any. */
  table?(): Bursts;
}

type Maker = (protocol: JsonObject, shape: Shape, labels: number) => Encoder | Promise<Encoder>;

const MOST_SLOTS = 1_000_000;
/** More would keep a device busy for many seconds. */
const MOST_COINS = 1 << 26;
const HALF = 1n << 63n;

/** Every protocol for devices, by its name in plans. Noise that is shared out is loaded where it is asked for. */
export const PROTOCOLS: Readonly<Record<string, Maker>> = {
  flips,
  decoys,
  "flipped-decoys": flippedDecoys,
  encoded,
  "signed-decoys": async (protocol, shape, labels) => (await import("./shared_noise.ts")).signed(protocol, shape, labels),
  weighted: async (protocol, shape) => (await import("./shared_noise.ts")).weighted(protocol, shape),
};

export async function encoderOf(protocol: JsonObject, shape: Shape, labels: number): Promise<Encoder> {
  const kind = protocol.kind;
  if (typeof kind !== "string" || !Object.hasOwn(PROTOCOLS, kind)) {
    throw new UnsupportedPlan(`the plan has a protocol that this client does not know: ${String(kind).slice(0, 40)}`);
  }
  return PROTOCOLS[kind](protocol, shape, labels);
}

function flipChance(protocol: JsonObject): Chance {
  const k = grains(protocol.flip_probability);
  if (k >= HALF) throw new UnsupportedPlan("a flip probability of the plan is not below 1/2");
  return chanceOf(k);
}

/** Where bits are set after they were flipped. */
function flipped(words: Words, chance: Chance, bits: number, held: Iterable<number>): number[] {
  const row = coins(words, chance, bits);
  for (const bit of held) row[bit] ^= 1;
  return places(row);
}

function places(row: Uint8Array): number[] {
  const found: number[] = [];
  row.forEach((bit, place) => bit && found.push(place));
  row.fill(0);
  return found;
}

function flips(protocol: JsonObject, shape: Shape, labels: number): Encoder {
  fields(protocol, ["kind", "flip_probability", "copies"], ["slots"]);
  const chance = flipChance(protocol);
  const copies = whole(protocol.copies, 1, 10_000);
  const limit = protocol.slots === undefined ? undefined : whole(protocol.slots, 1, MOST_SLOTS);
  requireFit(shape !== "number" && (shape === "choice") === (limit !== undefined) && (shape !== "choice" || copies === 1));
  const codes = shape === "bit" ? 1 : labels;
  const slots = limit === undefined ? copies * codes : Math.min(limit, labels);
  return {
    codes,
    slots,
    varies: false,
    draw(answer, words) {
      const held = typeof answer !== "number" ? answer : shape !== "bit" ? [answer] : answer ? [0] : [];
      const all = Array.from({ length: copies }, (_, copy) => held.map((bit) => copy * codes + bit)).flat();
      return flipped(words, chance, copies * codes, all)
        .map((place) => place % codes)
        .slice(0, slots);
    },
  };
}

function decoys(protocol: JsonObject, shape: Shape, labels: number): Encoder {
  fields(protocol, ["kind", "decoy_slots", "decoy_rate"]);
  const slots = whole(protocol.decoy_slots, 1, MOST_SLOTS);
  const rate = chanceOf(grains(protocol.decoy_rate));
  requireFit(shape === "bit" || shape === "choice");
  return {
    codes: labels,
    slots: 1 + slots,
    varies: true,
    draw(answer, words) {
      const sent = coins(words, rate, slots);
      return [answer as number, ...below(words, labels, slots).filter((_, slot) => sent[slot])];
    },
  };
}

function flippedDecoys(protocol: JsonObject, shape: Shape, labels: number): Encoder {
  fields(protocol, ["kind", "flip_probability", "decoys", "slots"]);
  const chance = flipChance(protocol);
  const fakes = whole(protocol.decoys, 1, 1000);
  const slots = whole(protocol.slots, 1, MOST_SLOTS);
  requireFit(shape === "choice" && fakes * labels <= MOST_COINS);
  return {
    codes: labels,
    slots: (1 + fakes) * Math.min(slots, labels),
    varies: false,
    draw: (answer, words) =>
      [answer as number, ...below(words, labels, fakes)].flatMap((value) =>
        flipped(words, chance, labels, [value]).slice(0, slots),
      ),
  };
}

function encoded(protocol: JsonObject, shape: Shape): Encoder {
  fields(protocol, ["kind", "flip_probability", "resolution", "together"]);
  const chance = flipChance(protocol);
  const bits = whole(protocol.resolution, 1, 1000);
  const together = flag(protocol.together);
  requireFit(shape === "number");
  return {
    codes: together ? 1 : bits,
    slots: bits,
    varies: false,
    draw(answer, words) {
      const full = roundByChance(words, (answer as number) * bits);
      const held = flipped(words, chance, bits, Array(Math.min(full, bits)).keys());
      return together ? held.map(() => 0) : held;
    },
  };
}
