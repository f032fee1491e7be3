/**
 * Several questions, rounds, flags or digits together.
 *
 * Each mechanism gives upper ends of its profile at the nodes of a grid of growth factors. The lower
 * hull of these is the profile of a pair of laws that dominates it, whose losses are nodes; what
 * holds for such pairs holds, seen one after the other, for all that is below them [Zhu, Dong, Wang
 * 2022, theorem 10]. So their losses add up, as upper ends of masses on the grid.
 */

import { NotProved, over, UNIT, type Effort } from "./arithmetic.ts";

export interface Mechanism {
  /** Upper ends of delta at growth factors of at least 1, which may be above it by a share `excess`. */
  profile(growths: Float64Array, least: number, effort: Effort, excess: number): Promise<Float64Array>;
}

/** Steps of the grid across the narrowest profile, and at most so many across all. */
const STEPS = 200;
const MOST_STEPS = 2000;
/** The share of delta that losses behind the last node may take. */
const INFINITE = 1e-5;

/** Masses from a place of the grid on: upper ends, but for so many steps of rounding. */
interface Losses {
  readonly first: number;
  readonly masses: Float64Array;
  readonly infinite: number;
  readonly steps: number;
}

/** How far above profiles their upper ends may be: the second time more is computed. */
const EXCESSES = [0.02, 0.002];

/** Whether delta is at most this of mechanisms that are each seen so many times. */
export async function holdsTogether(parts: readonly Counted[], growth: number, delta: number, effort: Effort): Promise<boolean> {
  for (const excess of EXCESSES) if ((await composedDelta(parts, growth, delta, effort, excess)) <= delta) return true;
  return false;
}

type Counted = readonly [mechanism: Mechanism, times: number];

async function composedDelta(parts: readonly Counted[], growth: number, delta: number, effort: Effort, excess: number): Promise<number> {
  const rounds = parts.reduce((sum, [, times]) => sum + times, 0);
  const least = (delta / rounds) * 1e-9;
  const reaches: number[] = [];
  for (const [mechanism] of parts) reaches.push(await reachOf(mechanism, (delta / rounds) * INFINITE, least, effort));
  // Any grid proves what it proves: logarithms only choose one.
  const far = Math.max(...reaches);
  const factor = Math.exp(Math.max(Math.min(...reaches) / STEPS, far / MOST_STEPS));
  const nodes = Math.ceil(far / Math.log(factor)) + 1;
  if (!(factor > 1 && nodes <= 2 * MOST_STEPS)) throw new NotProved("its losses are too different to be followed together");
  const growths = new Float64Array(nodes + 1);
  growths[0] = 1;
  for (let at = 1; at <= nodes; at++) growths[at] = growths[at - 1] * factor;
  let total: Losses = { first: 0, masses: Float64Array.of(1), infinite: 0, steps: 0 };
  for (const [mechanism, times] of parts) {
    let one = dominating(growths, await mechanism.profile(growths, least, effort, excess));
    for (let left = times; left > 0; left = Math.floor(left / 2)) {
      await effort.breathe();
      if (left % 2) total = add(total, one, least, effort);
      await effort.breathe();
      if (left > 1) one = add(one, one, least, effort);
    }
  }
  return deltaOf(total, growths[1], growth / over(4 * nodes * rounds));
}

/** About the loss behind which so little of delta is left, or hardly less than there always is. */
async function reachOf(mechanism: Mechanism, most: number, least: number, effort: Effort): Promise<number> {
  const at = async (losses: number[]) => mechanism.profile(Float64Array.from(losses, Math.exp), least, effort, 0.2);
  const marks = Array.from({ length: 24 }, (_, place) => 600 * 2 ** ((place - 23) / 1.5));
  const deltas = await at(marks);
  const goal = Math.max(most, deltas[marks.length - 1] * (1 + INFINITE * 10));
  const place = deltas.findIndex((one) => one <= goal);
  if (place < 0) throw new NotProved("its losses have no bound");
  if (place === 0) return marks[0];
  const finer = Array.from({ length: 16 }, (_, part) => marks[place - 1] + ((marks[place] - marks[place - 1]) * (part + 1)) / 16);
  const found = (await at(finer)).findIndex((one) => one <= goal);
  return found < 0 ? marks[place] : finer[found];
}

/** The losses of the pair that has this profile; the first law has a mass of x times the second one's at x, and both are mirrored. */
function dominating(growths: Float64Array, ends: Float64Array): Losses {
  const deltas = ends.slice();
  // The profile is convex and its own mirror image: at 1 it is below every chord to a mirrored point.
  growths.forEach((x, at) => (deltas[0] = Math.min(deltas[0], ((x - 1 + 2 * ends[at]) / (x + 1)) * over(8))));
  // It only falls, and never exceeds 1.
  for (let at = 0; at < deltas.length; at++) deltas[at] = Math.min(at ? deltas[at - 1] : 1, deltas[at]);
  const corners = hull(growths, deltas);
  const last = growths.length - 1;
  const masses = new Float64Array(2 * last + 1);
  let [others, doubt, before] = [deltas[last], 8 * UNIT, 0];
  for (let at = corners.length - 1; at > 0; at--) {
    const [from, to] = [corners[at - 1], corners[at]];
    const slope = (deltas[from] - deltas[to]) / (growths[to] - growths[from]);
    const room = 8 * UNIT * (slope + before);
    const below = Math.max(slope - before, 0) + room;
    const above = below * growths[to];
    masses[last + to] = above * over(4);
    masses[last - to] = below * over(4);
    others += above + below;
    doubt += (4 * room + 16 * UNIT * below) * (1 + growths[to]) + 16 * UNIT;
    before = slope;
  }
  masses[last] = Math.max(1 - others + doubt, 0);
  // NaN would be lost in a maximum of nothing: it must stay.
  if (!(others >= 0)) throw new NotProved("its profile could not be followed");
  return { first: -last, masses, infinite: deltas[last], steps: 0 };
}

/** The corners of the largest convex function below all points. */
function hull(x: Float64Array, y: Float64Array): number[] {
  const corners: number[] = [];
  for (let next = 0; next < x.length; next++) {
    for (; corners.length > 1; corners.pop()) {
      const [a, b] = corners.slice(-2);
      if ((x[b] - x[a]) * (y[next] - y[a]) > (y[b] - y[a]) * (x[next] - x[a])) break;
    }
    corners.push(next);
  }
  return corners;
}

/** The law of a sum. Small masses at the top become infinite, and those at the bottom move up: both only add to delta. */
function add(one: Losses, other: Losses, least: number, effort: Effort): Losses {
  const [short, long] = one.masses.length < other.masses.length ? [one.masses, other.masses] : [other.masses, one.masses];
  effort.spend(short.length * long.length + 1000);
  const masses = new Float64Array(short.length + long.length - 1);
  for (let i = 0; i < short.length; i++) {
    const mass = short[i];
    if (mass) for (let j = 0; j < long.length; j++) masses[i + j] += mass * long[j];
  }
  let [bottom, top, lost, moved] = [0, masses.length, 0, 0];
  while (top > 1 && lost + masses[top - 1] <= least) lost += masses[--top];
  while (bottom < top - 1 && moved + masses[bottom] <= least) moved += masses[bottom++];
  const kept = masses.slice(bottom, top);
  kept[0] += moved;
  const steps = one.steps + other.steps + short.length + masses.length + 8;
  return { first: one.first + other.first + bottom, masses: kept, infinite: one.infinite + other.infinite + lost * over(steps), steps };
}

/** Σ mass·(1 − growth/ratio) where that is positive, and all that is infinite. */
function deltaOf(losses: Losses, factor: number, growth: number): number {
  let total = 0;
  let ratio = 1;
  const end = losses.first + losses.masses.length;
  for (let place = 0; place < end; place++) {
    if (place >= losses.first && ratio > growth) total += (losses.masses[place - losses.first] * (ratio - growth)) / ratio;
    ratio *= factor * (1 + 2 * UNIT);
    if (ratio > 1e300) ratio = 1e300;
  }
  return total * over(losses.steps + losses.masses.length + 64) + losses.infinite * over(64);
}
