/** From a plan to what its people are exposed to, and whether that stays below the promise. */

import { fraction } from "../exact.ts";
import type { JsonObject } from "../canonical.ts";
import type { Part, Plan } from "../plan.ts";
import { fields, list, whole } from "../reading.ts";
import { chanceIn, Effort, exponentialAbove, exponentialBelow, NotProved, over, powerAbove, UNIT, type Chance } from "./arithmetic.ts";
import { Bits } from "./bits.ts";
import { holdsTogether } from "./composition.ts";
import { Decoys } from "./decoys.ts";
import { shortfall } from "./honest.ts";
import { binomial } from "./laws.ts";
import { droppedChance, Signed, type Noise } from "./signed.ts";

/** What one part of a plan shows, how often, and the chance that it is not what it should be. */
interface Shown {
  readonly seen: readonly (readonly [Bits | Decoys | Signed, number])[];
  readonly cut: number;
  /** Flipped coins of one person, where nothing is sent in clear. */
  readonly coins?: readonly [Chance, number];
}

/** How an amount of delta is told from nothing at all: smaller chances lose digits. */
const LEAST_DELTA = 1e-100;
/** About two seconds, of a slow device some more. */
const MOST_EFFORT = 5e8;
const MOST_USERS = 1e10;
const MOST_RATES = 600;

export { NotProved };

/** Prove the promise of a plan, or throw NotProved. */
export async function prove(plan: Plan): Promise<void> {
  const { epsilon, delta } = plan;
  const { users, reports, rounds } = crowdOf(plan);
  const effort = new Effort(MOST_EFFORT);
  const growth = exponentialBelow(epsilon);
  // Roundings of what is spared for cutting, and of the sum in the end.
  const goal = delta * (1 - 16 * UNIT);
  // Of what is in the way of a proof by a crowd, nothing matters to who trusts nobody.
  const alone = plan.parts.map((part) => coinsOf(part));
  if (staysLocal(alone, rounds, growth)) return;
  if (users === 1) throw new NotProved("the plan counts on nobody else, and single reports tell more than it promises");
  if (!(delta >= LEAST_DELTA)) throw new NotProved("its delta is too small for this client");
  const least = (delta / rounds) * 1e-9;
  const shown = plan.parts.map((part) => shownBy(part, users, least / growth / users, effort));
  const cut = shown.reduce((sum, one) => sum + one.cut, 0) * over(shown.length);
  const honest = (plan.document.crowd as JsonObject).honest;
  const short = honest === undefined ? 0 : shortfall(users, reports, fields(honest, ["share", "reading"]).share);
  const charged = rounds * (cut * (1 + exponentialAbove(epsilon)) + short) * over(16);
  const spared = goal - charged;
  if (!(spared > 0)) throw new NotProved("the noise that is cut off, or people who may lie, take all of its delta");
  const seen = shown.flatMap((one) => one.seen).map(([one, times]) => [one, times * rounds] as const);
  const [[first, times], ...others] = seen;
  let holds: boolean;
  if (!others.length && times === 1) holds = await first.holds(growth, spared, effort);
  else if (!others.length && times === 2 && first instanceof Bits) holds = await first.bothHold(growth, spared, effort);
  else holds = await holdsTogether(seen, growth, spared, effort);
  if (!holds) throw new NotProved(`its parameters are not proved to give epsilon ${epsilon} and delta ${delta}`);
}

/** How many people it counts on, out of how many; everything that its proof rests on is there. */
function crowdOf(plan: Plan): { users: number; reports: number; rounds: number } {
  const promise = fields(plan.document.guarantee, ["epsilon", "delta", "neighbours", "view", "crowd", "local_epsilon", "method"]);
  const crowd = fields(plan.document.crowd, ["users", "reports", "counted_on", "rounds"], ["contributions", "honest"]);
  if (!(plan.epsilon > 0 && plan.epsilon <= 700 && plan.delta >= 0 && plan.delta < 1)) throw new NotProved("it promises nothing");
  if (plan.contributions > 1) throw new NotProved("everybody sends several reports, of which this client proves nothing");
  const users = whole(crowd.counted_on, 1, MOST_USERS);
  const reports = whole(crowd.reports, whole(crowd.users, users, MOST_USERS * 100), MOST_USERS * 100);
  if (promise.neighbours !== "replace-one" || promise.view !== (users === 1 ? "one report" : "messages")) {
    throw new NotProved("its promise is about other neighbours, or about something else that is seen");
  }
  if (crowd.honest !== undefined && fields(crowd.honest, ["share", "reading"]).reading !== "independent") {
    throw new NotProved("its honest share is meant in a way that this client does not know");
  }
  return { users, reports, rounds: plan.rounds };
}

/** Whether the odds of one person's own reports stay within the promise, whoever shuffles them. */
function staysLocal(alone: readonly ((readonly [Chance, number]) | undefined)[], rounds: number, growth: number): boolean {
  let most = 1;
  for (const coins of alone) {
    if (!coins) return false;
    const [flip, times] = coins;
    most *= powerAbove((flip.miss / flip.hit) * over(8), times * rounds);
  }
  return most * over(2 * alone.length) <= growth;
}

/** The coins of one answer that another answer turns over; none where it is sent in clear. */
function coinsOf({ document: { protocol }, question }: Part): readonly [Chance, number] | undefined {
  if (protocol.flip_probability === undefined) return undefined;
  const flip = chanceIn(protocol.flip_probability);
  if (protocol.kind === "encoded") return [flip, protocol.resolution as number];
  if (question.shape === "choice") return [flip, 2];
  return [flip, (protocol.copies as number) * (question.shape === "flags" ? question.labels : 1)];
}

/** What is seen of a part with so many honest people. Its fields were read when the plan was. */
function shownBy({ document: { protocol }, question: { shape, labels } }: Part, users: number, least: number, effort: Effort): Shown {
  switch (protocol.kind) {
    case "flips": {
      const flip = chanceIn(protocol.flip_probability);
      if (shape === "choice") return twoSums(flip, protocol, labels, users, least, effort);
      const copies = protocol.copies as number;
      return { seen: [[new Bits(flip, copies, copies, users - 1), shape === "flags" ? labels : 1]], cut: 0 };
    }
    case "flipped-decoys":
      // Decoys, given where they fell, are people with some value.
      return twoSums(chanceIn(protocol.flip_probability), protocol, labels, users * (1 + (protocol.decoys as number)), least, effort);
    case "encoded": {
      // The more of its bits differ, the farther apart are two numbers: the ends of the range.
      const flip = chanceIn(protocol.flip_probability);
      const bits = protocol.resolution as number;
      if (protocol.together) return { seen: [[new Bits(flip, bits, 1, bits * (users - 1)), 1]], cut: 0 };
      return { seen: [[new Bits(flip, 1, 1, users - 1), bits]], cut: 0 };
    }
    case "decoys": {
      // Two values of all: a decoy is one of them with a chance of 2/labels.
      const { hit } = chanceIn(protocol.decoy_rate);
      const both = labels === 2 ? hit : (hit * 2) / labels;
      return { seen: [[new Decoys(users * (protocol.decoy_slots as number), { hit: both, miss: 1 - both }), 1]], cut: 0 };
    }
    case "signed-decoys": {
      if (whole(protocol.cut_for, 1, Number.MAX_SAFE_INTEGER) > users) {
        throw new NotProved("its noise is cut for more people than it counts on, of which this client proves nothing");
      }
      const values = shape === "bit" || shape === "number" ? 1 : labels;
      const noises = [noiseOf(protocol), ...(protocol.finer === undefined ? [] : list(protocol.finer, 10).map((one) => noiseOf(one as JsonObject)))];
      const share = values / (protocol.cut_for as number);
      const dropped = droppedChance(noises, share, protocol.room as number, least, effort);
      const times = shape === "flags" ? labels : 1;
      return { seen: noises.map((noise) => [new Signed(noise, shape === "choice"), times]), cut: Math.min(dropped * users, 1) };
    }
    default:
      throw new NotProved(`of ${String(protocol.kind).slice(0, 40)} numbers this client proves nothing`);
  }
}

/** The sums at the value that is left and at the one that is joined; each record is cut to its slots. */
function twoSums(flip: Chance, protocol: JsonObject, labels: number, records: number, least: number, effort: Effort): Shown {
  const slots = protocol.slots as number;
  let cut = 0;
  if (slots < labels) {
    // More set bits than slots need as many of those that were not set.
    const { first, masses, missing, steps } = binomial(labels - 1, flip, least, effort);
    for (let at = Math.max(slots - first, 0); at < masses.length; at++) cut += masses[at];
    cut = Math.min((cut * over(2 * steps) + missing) * records, 1);
  }
  return { seen: [[new Bits(flip, 1, 1, records - 1), 2]], cut };
}

function noiseOf(table: JsonObject): Noise {
  const flood = list(table.flood, 10_000).map((rate) => {
    fraction(rate);
    return Number(rate);
  });
  const { over: hits, under: all } = fraction(table.ratio);
  if (!(flood.reduce((sum, rate) => sum + rate, 0) <= MOST_RATES)) throw new NotProved("its noise is too much for this client");
  const ratio = { hit: Number(table.ratio), miss: Number(((all - hits) << 80n) / all) / 2 ** 80 };
  return { ratio, flood, steps: table.steps === undefined ? 1 : whole(table.steps, 1, 1000), unit: table.doubled === true ? 2 : 1 };
}

/** Whether a promise is about parties that must not work together, in words. */
export function sentenceOf(plan: Plan): string {
  const crowd = fields(plan.document.crowd, ["users", "reports", "counted_on", "rounds"], ["contributions", "honest"]).counted_on as number;
  const often = plan.rounds === 1 ? "what you send" : `all that you send in ${plan.rounds} rounds`;
  const odds = Math.exp(plan.epsilon).toPrecision(3);
  const hop = plan.parts.some((part) => part.document.protocol.kind === "signed-decoys");
  const trust =
    crowd === 1
      ? "whoever works together"
      : `if ${crowd} people are honest and ${hop ? "the first hop" : "not all hops"} ${hop ? "does" : "do"} not work with the analyzer`;
  const chance = plan.delta ? `, but for a delta of ${plan.delta}` : "";
  return `This device has proved: ${often} changes the odds of any conclusion about you by no more than ${odds} times (epsilon ${plan.epsilon}${chance}), ${trust}.`;
}
