/**
 * Clear answers among signed decoys.
 *
 * The difference D of two geometric numbers of messages is independent of the smaller one, so the
 * view of one changed answer is a sum over D of hockey-sticks of one law W against W moved by a few
 * places. W is geometric with ratio², and `flood[k − 1]` bursts of k pairs on average. Only places
 * where plus is ahead count: elsewhere W moved by m places is at least ratio^2m times W. Of noise in
 * twos that is not certain, and both sides count.
 */

import { exponentialAbove, NotProved, over, powerAbove, UNIT, type Chance, type Effort } from "./arithmetic.ts";
import { Pair } from "./laws.ts";

/** Bursts of all kinds of one value or digit, at rates for all honest people together. */
export interface Noise {
  readonly ratio: Chance;
  readonly flood: readonly number[];
  readonly steps: number;
  /** How often each plus and each minus is sent: once, or twice where every answer is one of them. */
  readonly unit: 1 | 2;
}

const MOST_PLACES = 100_000;

export class Signed {
  readonly local = undefined;
  readonly #noise: Noise;
  readonly #isChoice: boolean;
  #known: { readonly least: number; readonly profile: (growth: number) => number } | undefined;

  constructor(noise: Noise, isChoice: boolean) {
    [this.#noise, this.#isChoice] = [noise, isChoice];
  }

  async holds(growth: number, delta: number, effort: Effort): Promise<boolean> {
    return (await this.profile(Float64Array.of(growth), delta * 1e-9, effort))[0] <= delta;
  }

  async profile(growths: Float64Array, least: number, effort: Effort): Promise<Float64Array> {
    await effort.breathe();
    if (this.#known?.least !== least) {
      const law = coverOf(this.#noise, least, effort);
      await effort.breathe();
      this.#known = { least, profile: this.#isChoice ? this.#choice(law, effort) : this.#steps(law, effort) };
    }
    effort.spend(300 * growths.length * this.#noise.steps);
    const { profile } = this.#known;
    return growths.map((growth) => profile(growth));
  }

  /** A bit, or a digit: at a place where plus is k ahead an answer moves W by k, and D has the odds ratio^2k. */
  #steps(law: Cover, effort: Effort): (growth: number) => number {
    const { hit: ratio, miss: rest } = this.#noise.ratio;
    const room = over(64 * this.#noise.steps + 64);
    if (this.#noise.unit === 2) {
      const ahead = new Moved(law, 1, ratio, effort, 1);
      const behind = ahead.mirrored();
      return (growth) => ((ahead.excess(growth) + ratio * behind.excess(growth / ratio / over(4))) / (1 + ratio)) * room;
    }
    const moved = Array.from({ length: this.#noise.steps }, (_, at) => new Moved(law, at + 1, ratio, effort));
    return (growth) => {
      let [before, worst] = [0, 0];
      for (const one of moved) {
        const excess = one.excess(growth);
        // P[D = 0] is (1 − ratio)/(1 + ratio), and P[D ≥ 0] is 1/(1 + ratio).
        worst = Math.max(worst, ((before * rest + excess) / (1 + ratio)) * room);
        before = (before + excess) * ratio;
      }
      return worst;
    };
  }

  /** One value gains an answer and another loses it. Places with plus ahead share one ratio; the others show W, moved by one. */
  #choice(law: Cover, effort: Effort): (growth: number) => number {
    const { hit: ratio } = this.#noise.ratio;
    const size = law.masses.length;
    const [here, there] = [new Float64Array(size + 2), new Float64Array(size + 2)];
    const share = 1 / (1 + ratio);
    [here[0], there[0]] = [share, share * ratio];
    law.masses.forEach((mass, at) => {
      here[at + 2] = share * ratio * mass;
      there[at + 1] = share * mass;
    });
    const gains = Pair.sorted(here, there, law.missing, law.steps + 8);
    const loses = Pair.sorted(there, here, law.missing, law.steps + 8);
    const moved = new Moved(law, 1, ratio, effort);
    return (growth) => {
      // The other bound is Σ max(0, w(u) − ratio²·e^ε·w(u − 1))/(1 + ratio): a place where the value
      // that gains is not ahead has at most the ratio of those where it is.
      const simple = (moved.excess(growth) / (1 + ratio)) * over(8);
      return Math.min(gains.excessWith(loses, growth), simple);
    };
  }
}

/** The law of W from 0 on; it lacks at most `missing`. */
interface Cover {
  readonly masses: Float64Array;
  readonly missing: number;
  readonly steps: number;
  /** No mass is larger than the one before it times this. */
  readonly fastest: number;
}

/** W against W moved by some places, with what D gains by them. */
class Moved {
  readonly #pair: Pair;
  readonly #odds: number;
  readonly #head: number;
  readonly #fastest: number;

  constructor({ masses, missing, steps, fastest }: Cover, places: number, ratio: number, effort: Effort, power = 2 * places) {
    effort.spend(1500 * masses.length);
    const first = new Float64Array(masses.length + places);
    const second = new Float64Array(masses.length + places);
    first.set(masses);
    second.set(masses, places);
    this.#pair = Pair.sorted(first, second, missing, steps);
    this.#odds = 1 / powerAbove((1 / ratio) * over(2), power);
    let head = 0;
    for (let at = 0; at < Math.min(places, masses.length); at++) head += masses[at];
    this.#head = head * over(steps + places + 8);
    this.#fastest = powerAbove(fastest, places);
  }

  /** W moved by the places against W. */
  mirrored(): Pair {
    return Pair.sorted(this.#pair.second, this.#pair.first, this.#pair.missing, this.#pair.steps);
  }

  /**
   * The upper end of Σ max(0, w(u) − x·w(u − places)).
   *
   * Where all ratios are nearly x, rounding hides which of them are above it. But where no ratio is,
   * the sum is that of the first places; and it falls in x no faster than x rises.
   */
  excess(growth: number): number {
    const x = growth * this.#odds * (1 - 4 * UNIT);
    return Math.min(this.#pair.excess(x), this.#head + Math.max(this.#fastest - x, 0) * over(4));
  }
}

/** u·f(u) = Σ k·λₖ·f(u − k) for the bursts, and w(u) = b·w(u − unit) + (1 − b)·f(u). */
function coverOf({ ratio, flood, steps: answer, unit }: Noise, least: number, effort: Effort): Cover {
  const b = ratio.hit * ratio.hit;
  const leave = ratio.miss * (1 + ratio.hit);
  const sizes = flood.map((rate, at) => (at + 1) * rate);
  const mean = sizes.reduce((sum, one) => sum + one, (unit * b) / leave);
  const bursts = [1];
  const masses = [leave];
  let total = leave;
  for (let place = 1, missing = 1; !(missing <= least); place++) {
    effort.spend(3 * flood.length + 30);
    if (place > MOST_PLACES || !(total < 1e290)) throw new NotProved("the noise of the plan is too wide to follow");
    let sum = 0;
    for (let k = 1; k <= Math.min(sizes.length, place); k++) sum += sizes[k - 1] * bursts[place - k];
    bursts.push(sum / place);
    masses.push(b * (masses[place - unit] ?? 0) + leave * bursts[place]);
    total += masses[place];
    if (place > mean + answer && masses[place] <= total * least * 1e-3) {
      missing = rarely([[flood, 1]], [[b, leave, 1, unit]], rootOf(0.9999 / b, unit), place + 1);
      if (missing <= least) {
        const law = Float64Array.from(masses, (mass) => mass / total);
        return { masses: law, missing: 4 * missing, steps: (flood.length + 16) * (place + 3), fastest: unit === 1 ? fastestOf(sizes, b) : Infinity };
      }
    }
  }
  throw new NotProved("the noise of the plan is too wide to follow");
}

/** By the theorem on how fast masses grow: the largest quotient of (k·λₖ + b^k) and the one before it. */
function fastestOf(sizes: readonly number[], b: number): number {
  let [before, power, worst] = [1, 1, b];
  for (const size of [...sizes, 0]) {
    power *= b;
    const next = size + power;
    worst = Math.max(worst, before > 1e-290 ? next / before : Infinity);
    before = next;
  }
  return worst * over(8 * sizes.length + 32);
}

/**
 * An upper end of the chance of at least `place`, by Chernoff's inequality with some z > 1.
 *
 * Bursts come at Poisson rates, a flood with the size of its first bursts; the others are negative
 * binomial: a ratio b, 1 − b, and an exponent, which may be larger than it is.
 */
function rarely(floods: readonly Flood[], geometric: readonly Geometric[], steepest: number, place: number): number {
  let least = 1;
  // Every z is right; far out a larger one is better.
  for (let z = steepest, tries = 0; z > 1.0001 && tries < 60; z = 1 + (z - 1) * 0.8, tries++) {
    least = Math.min(least, momentOf(floods, geometric, z) * powerAbove((1 / z) * over(2), place) * over(64));
  }
  return least;
}

type Flood = readonly [rates: readonly number[], size: number];
type Geometric = readonly [b: number, leave: number, exponent: number, unit: number];

/** About a root, which only chooses where to look. */
function rootOf(z: number, unit: number): number {
  return unit === 1 ? z : Math.sqrt(z);
}

/** An upper end of the mean of z^N. */
function momentOf(floods: readonly Flood[], geometric: readonly Geometric[], z: number): number {
  let [exponent, found] = [0, 1];
  for (const [rates, size] of floods) {
    const step = powerAbove(z, size);
    let power = 1;
    for (const rate of rates) {
      power *= step;
      exponent += rate * (power * over(8 * rates.length + 64) - 1);
    }
  }
  for (const [b, leave, times, unit] of geometric) {
    const rest = 1 - b * powerAbove(z, unit) * over(8);
    if (!(rest > 0)) return Infinity;
    found *= powerAbove((leave * over(8)) / rest, times);
  }
  return exponent <= 690 ? found * exponentialAbove(exponent * over(20_000)) : Infinity;
}

/**
 * An upper end of the chance that the noise of one report is not what it should be.
 *
 * It is dropped where it does not fit: P[N > room], where N counts its messages and n·P(n) is the
 * sum over bursts of size·rate·P(n − size). And it is drawn from tables of whole numbers of 2⁻¹²⁸,
 * with one entry for every number of bursts and for every kind of burst, each off by less than two.
 */
export function droppedChance(noises: readonly Noise[], share: number, room: number, least: number, effort: Effort): number {
  const single = noises.map(() => [0]);
  const longest = Math.max(...noises.map((noise) => noise.flood.length));
  const masses = [1];
  let [kept, lost] = [1, 0];
  for (let place = 1; ; place++) {
    effort.spend((3 * longest + 10) * noises.length);
    if (place > MOST_PLACES || !(kept < 1e290)) throw new NotProved("the noise of the plan is too wide to follow");
    let sum = 0;
    noises.forEach(({ ratio, flood, unit }, at) => {
      const before = place - unit;
      single[at].push(before < 0 ? 0 : ratio.hit * (single[at][before] + masses[before]));
      sum += 2 * unit * share * single[at][place];
      for (let k = 1; k <= flood.length && 2 * k <= place; k++) sum += 2 * k * share * flood[k - 1] * masses[place - 2 * k];
    });
    const mass = sum / place;
    masses.push(mass);
    if (place <= room) kept += mass;
    else lost += mass;
    if (place > room && place > 2 && mass <= least * 1e-3) {
      const steepest = Math.min(...noises.map((noise) => rootOf(0.9999 / noise.ratio.hit, noise.unit)));
      const rates = noises.map((noise) => [noise.flood.map((rate) => share * rate), 2] as const);
      const geometric = noises.map(({ ratio, unit }) => [ratio.hit, ratio.miss, Math.ceil(2 * share), unit] as const);
      const missing = rarely(rates, geometric, steepest, place + 1);
      if (missing <= least) {
        const worked = (longest + 16) * noises.length * (place + 3);
        const mean = share * noises.reduce((bursts, noise) => bursts + 2 / noise.ratio.miss + noise.flood.reduce((all, rate) => all + rate, 0), 0);
        const kinds = noises.reduce((all, noise) => all + 2 * room + noise.flood.length, 0);
        const entries = 1000 + 10 * mean + kinds * (mean + 1);
        return (lost / kept) * over(4 * worked) + 2 * missing + entries * 2 ** -126;
      }
    }
  }
}
