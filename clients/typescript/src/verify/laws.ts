/** Laws of sums of coins, and what tells two of them apart. */

import { NotProved, over, type Chance, type Effort } from "./arithmetic.ts";

/**
 * Masses from one place on. Each is off by at most so many steps of rounding. Places that are not
 * listed have at most `missing` of the law, and the others were made larger by no more than that.
 */
export interface Law {
  readonly first: number;
  readonly masses: Float64Array;
  readonly missing: number;
  readonly steps: number;
}

/** Smaller weights would lose digits where they are multiplied. */
const LEAST = 1e-120;

/** The law of the number of hits; weights below `least` of the largest are left out. */
export function binomial(count: number, { hit, miss }: Chance, least: number, effort: Effort): Law {
  if (count === 0 || miss === 0) return { first: miss === 0 ? count : 0, masses: Float64Array.of(1), missing: 0, steps: 0 };
  const floor = Math.max(least, LEAST);
  const mode = Math.min(count, Math.floor((count + 1) * hit));
  effort.spend(40 * Math.sqrt(count * hit * miss * -Math.log(floor)) + 1000);
  const odds = hit / miss;
  const sides = [1, -1].map((way) => {
    const weights: number[] = [];
    let place = mode;
    const ratio = () => (way > 0 ? ((count - place) / (place + 1)) * odds : place / (count + 1 - place) / odds);
    for (let weight = 1; weight > floor && place !== (way > 0 ? count : 0); place += way) weights.push((weight *= ratio()));
    const next = ratio();
    // Ratios fall: behind the last weight is less than a geometric series.
    const rest = next === 0 ? 0 : next < 1 ? ((weights.at(-1) ?? 1) * next) / (1 - next) : NaN;
    return { weights, rest };
  });
  const masses = Float64Array.from([...sides[1].weights.reverse(), 1, ...sides[0].weights]);
  let total = 0;
  for (const weight of masses) total += weight;
  for (let at = 0; at < masses.length; at++) masses[at] /= total;
  // The odds are off by four steps, and there are three more from place to place.
  const steps = 10 * masses.length + 10;
  return { first: mode - sides[1].weights.length, masses, missing: 4 * (sides[0].rest + sides[1].rest), steps };
}

/** The law of a sum. */
export function convolve(one: Law, other: Law, effort: Effort): Law {
  const [short, long] = one.masses.length < other.masses.length ? [one.masses, other.masses] : [other.masses, one.masses];
  effort.spend(short.length * long.length + 100);
  const masses = new Float64Array(short.length + long.length - 1);
  for (let i = 0; i < short.length; i++) {
    const mass = short[i];
    for (let j = 0; j < long.length; j++) masses[i + j] += mass * long[j];
  }
  const steps = one.steps + other.steps + short.length + 2;
  return { first: one.first + other.first, masses, missing: one.missing + other.missing, steps };
}

/**
 * Two laws over the same outcomes, sorted by falling ratio of their masses.
 *
 * The hockey-stick Σ max(0, P − x·Q) is summed over the first outcomes of this order. An outcome
 * whose sign rounding could hide counts, and costs a few roundings of its mass; so no outcome with
 * P > x·Q is ever left out.
 */
export class Pair {
  readonly first: Float64Array;
  readonly second: Float64Array;
  /** Sums of the first outcomes. */
  readonly sums: readonly [Float64Array, Float64Array];
  readonly missing: number;
  readonly steps: number;

  constructor(first: Float64Array, second: Float64Array, missing: number, steps: number) {
    [this.first, this.second, this.missing] = [first, second, missing];
    this.sums = [prefixes(first), prefixes(second)];
    this.steps = steps + first.length + 8;
  }

  /** Sums of so many others and the target, before it is flipped one or zero: ratios rise with the sum. */
  static ofSums(withOne: Law, withZero: Law): Pair {
    const low = Math.min(withOne.first, withZero.first);
    const high = Math.max(...[withOne, withZero].map((law) => law.first + law.masses.length));
    const [first, second] = [withOne, withZero].map((law) => {
      const found = new Float64Array(high - low);
      found.set(law.masses, law.first - low);
      return found.reverse();
    });
    return new Pair(first, second, withOne.missing, Math.max(withOne.steps, withZero.steps));
  }

  /** Outcomes in any order. */
  static sorted(first: Float64Array, second: Float64Array, missing: number, steps: number): Pair {
    const ratios = first.map((mass, at) => (second[at] > 0 ? mass / second[at] : mass > 0 ? Infinity : 0));
    const order = Array.from(ratios.keys()).sort((one, other) => (ratios[other] > ratios[one] ? 1 : ratios[other] < ratios[one] ? -1 : 0));
    return new Pair(Float64Array.from(order, (at) => first[at]), Float64Array.from(order, (at) => second[at]), missing, steps);
  }

  /** The upper end of the hockey-stick at x. */
  excess(x: number): number {
    const slack = over(4 * this.steps);
    let [low, high] = [0, this.first.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.first[middle] * slack <= x * this.second[middle]) high = middle;
      else low = middle + 1;
    }
    return this.sums[0][low] * over(16 * this.steps) - (x * this.sums[1][low]) / slack + this.missing;
  }

  /** The same of this pair and an independent other one together. */
  excessWith(other: Pair, x: number): number {
    const steps = this.steps + other.steps;
    const slack = over(4 * steps);
    let [plus, minus, place] = [0, 0, other.first.length];
    for (let at = 0; at < this.first.length; at++) {
      const [here, there] = [this.first[at] * slack, this.second[at] * x];
      // Ratios fall here, so the outcomes of the other pair that count become fewer.
      while (place && here * other.first[place - 1] <= there * other.second[place - 1]) place--;
      plus += this.first[at] * other.sums[0][place];
      minus += there * other.sums[1][place];
    }
    return plus * over(16 * steps) - minus / slack + this.missing + other.missing;
  }
}

function prefixes(masses: Float64Array): Float64Array {
  const found = new Float64Array(masses.length + 1);
  masses.forEach((mass, at) => (found[at + 1] = found[at] + mass));
  return found;
}

/** The law of a target's own coins, all flipped ones or all flipped zeros. */
export function targets(copies: number, flip: Chance, effort: Effort): { one: Law; zero: Law } {
  const zero = binomial(copies, flip, LEAST, effort);
  // Ratios of the two must rise on what is left of both.
  if (!(2 * zero.first + zero.masses.length - 1 <= copies)) throw new NotProved("it has too many copies");
  const one = { ...zero, first: copies + 1 - zero.first - zero.masses.length, masses: zero.masses.slice().reverse() };
  return { one, zero };
}
