/**
 * Sums of flipped bits, over all crowds.
 *
 * Records more never hurt: a view with more of them can be made from one with fewer. So every crowd
 * with `low` to `high` ones among its `last` records is at least as private as one with `low` ones
 * and `last − high` zeros, and a few such runs cover all crowds. Exchanging zeros and ones mirrors a
 * sum: what holds of all crowds in one direction holds of all in the other.
 */

import { over, type Chance, type Effort } from "./arithmetic.ts";
import { binomial, convolve, Pair, targets, type Law } from "./laws.ts";

/** From `low` to `high` ones. */
type Run = readonly [low: number, high: number];

/** How many points of a profile say whether a run stays near it. */
const PROBES = 10;

export class Bits {
  readonly local: readonly [Chance, number];
  readonly #flip: Chance;
  readonly #copies: number;
  readonly #step: number;
  readonly #last: number;
  readonly #laws = new Map<string, Pair>();

  /** `last` others of `step` equal bits, and a target of `copies`. */
  constructor(flip: Chance, copies: number, step: number, last: number) {
    [this.#flip, this.#copies, this.#step, this.#last] = [flip, copies, step, last];
    this.local = [flip, copies];
  }

  /** What all crowds of a run have: ones, and zeros. */
  #others([low, high]: Run, least: number, effort: Effort): [Law, Law] {
    const mirrored = { hit: this.#flip.miss, miss: this.#flip.hit };
    const ones = binomial(low * this.#step, mirrored, least, effort);
    return [ones, binomial((this.#last - high) * this.#step, this.#flip, least, effort)];
  }

  /** Whether delta is at most this in every crowd. */
  async holds(growth: number, delta: number, effort: Effort): Promise<boolean> {
    let length = 1;
    for (let low = 0; low <= this.#last; ) {
      const high = Math.min(low + length - 1, this.#last);
      await effort.breathe();
      if (this.#deltaOf([low, high], growth, delta * 1e-9, effort) <= delta) {
        low = high + 1;
        length *= 2;
      } else if (high === low) return false;
      else length = Math.floor((high - low + 1) / 2);
    }
    return true;
  }

  /**
   * The upper end of delta in a run, without the law of the whole sum.
   *
   * Ratios of the two laws rise with the sum, so that the worst event is "at least k". Everything
   * from the first k on that is not clearly left out counts.
   */
  #deltaOf(run: Run, growth: number, least: number, effort: Effort): number {
    const [one, other] = this.#others(run, least, effort);
    const [short, long] = one.masses.length < other.masses.length ? [one, other] : [other, one];
    const { one: after, zero: before } = targets(this.#copies, this.#flip, effort);
    const [up, down] = [after, before].map((target) => convolve(long, target, effort));
    const sums = [up, down].map((law) => suffixes(law.masses));
    const steps = short.steps + Math.max(up.steps, down.steps) + long.masses.length + this.#copies + short.masses.length + 8;
    const slack = over(4 * steps);
    const mass = (law: Law, k: number) => dot(short.masses, law.masses, k - short.first - law.first);
    const tail = (at: number, k: number) => dot(short.masses, sums[at], k - short.first - [up, down][at].first, sums[at][0]);
    let low = short.first + Math.min(up.first, down.first);
    // The last place at which anything is seen: behind it nothing can be told from nothing.
    let high = short.first + Math.max(...[up, down].map((law) => law.first + law.masses.length)) + short.masses.length - 2;
    effort.spend(short.masses.length * 70 + 2000);
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      // Clearly negative: nothing of what is left of it counts.
      if (mass(up, middle) * slack <= growth * mass(down, middle)) low = middle + 1;
      else high = middle;
    }
    return tail(0, low) * over(16 * steps) - (growth * tail(1, low)) / slack + short.missing + up.missing;
  }

  #pair(run: Run, least: number, effort: Effort): Pair {
    const key = `${run} ${least}`;
    const known = this.#laws.get(key);
    if (known) return known;
    const [ones, zeros] = this.#others(run, least, effort);
    const others = convolve(ones, zeros, effort);
    const { one, zero } = targets(this.#copies, this.#flip, effort);
    const found = Pair.ofSums(convolve(others, one, effort), convolve(others, zero, effort));
    this.#laws.set(key, found);
    return found;
  }

  /** Whether delta of two such sums together is at most this, in whatever two crowds. */
  async bothHold(growth: number, delta: number, effort: Effort): Promise<boolean> {
    const whole: Run = [0, this.#last];
    const boxes: [Run, Run][] = [[whole, whole]];
    for (let box = boxes.pop(); box; box = boxes.pop()) {
      const [first, second] = box;
      const [one, other] = [first, second].map((run) => this.#pair(run, delta * 1e-9, effort));
      effort.spend(8 * (one.first.length + other.first.length));
      await effort.breathe();
      if (one.excessWith(other, growth) <= delta) continue;
      const [wide, narrow] = first[1] - first[0] > second[1] - second[0] ? [first, second] : [second, first];
      if (wide[0] === wide[1]) return false;
      const [lower, upper] = halves(wide);
      // Of two sums with the same runs it is all the same which one is which.
      const same = first[0] === second[0] && first[1] === second[1];
      if (same) boxes.push([upper, upper], [upper, lower], [lower, lower]);
      else boxes.push([upper, narrow], [lower, narrow]);
    }
    return true;
  }

  /** Upper ends of delta at many growth factors, over all crowds; above them by a share `excess`, so that runs are few. */
  async profile(growths: Float64Array, least: number, effort: Effort, excess: number): Promise<Float64Array> {
    const worst = new Float64Array(growths.length);
    const probes = Float64Array.from({ length: PROBES }, (_, at) => growths[Math.floor((at * (growths.length - 1)) / (PROBES - 1))]);
    const reached = Float64Array.from(probes, () => 1000 * least);
    const see = (ones: number) => {
      const pair = this.#pair([ones, ones], least, effort);
      const found = probes.map((growth) => pair.excess(growth));
      found.forEach((one, at) => (reached[at] = Math.max(reached[at], one)));
    };
    for (let ones = 0; ones <= this.#last; ones = Math.ceil((ones + 1) * 1.3)) {
      await effort.breathe();
      see(ones);
    }
    let length = 1;
    for (let low = 0; low <= this.#last; ) {
      const high = Math.min(low + length - 1, this.#last);
      await effort.breathe();
      if (high === low) see(low);
      effort.spend(6000);
      const pair = this.#pair([low, high], least, effort);
      const near = probes.every((growth, at) => pair.excess(growth) <= reached[at] * (1 + excess));
      if (near || high === low) {
        effort.spend(40 * growths.length);
        growths.forEach((growth, at) => (worst[at] = Math.max(worst[at], pair.excess(growth))));
        low = high + 1;
        length *= 2;
      } else length = Math.floor((high - low + 1) / 2);
    }
    return worst;
  }
}

function halves([low, high]: Run): [Run, Run] {
  const middle = Math.floor((low + high) / 2);
  return [
    [low, middle],
    [middle + 1, high],
  ];
}

/** Σ short[j]·long[at − j]; before its first place `long` is `before`, behind its last one 0. */
function dot(short: Float64Array, long: Float64Array, at: number, before = 0): number {
  let sum = 0;
  for (let j = Math.max(0, at - long.length + 1); j < short.length; j++) sum += short[j] * (j <= at ? long[at - j] : before);
  return sum;
}

function suffixes(masses: Float64Array): Float64Array {
  const found = masses.slice();
  for (let at = found.length - 2; at >= 0; at--) found[at] += found[at + 1];
  return found;
}
