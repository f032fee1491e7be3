/** Noise that many devices share out: a Poisson number of bursts, each of one of a few kinds. */

import type { Json } from "./canonical.ts";
import { UnsupportedPlan } from "./errors.ts";
import { exponential, fixed, fraction, logarithm, type Fraction } from "./exact.ts";
import { chanceOf, coins, type Chance, type Words } from "./words.ts";

const MOST_BURSTS = 5000;

/** The tables of a device. Each has the sums of its chances, in units of 2⁻¹²⁸. */
export interface Bursts {
  readonly any: Chance;
  readonly numbers: readonly bigint[];
  readonly kinds: readonly bigint[];
}

/** Bursts of single messages: k of them at the rate ratio^k/k, for all k; those up to `room` are listed. */
export interface Series {
  readonly ratio: Fraction;
  readonly room: number;
}

/** A kind of burst with its rate, `atoms` times; one that is left out counts for the sum of all rates only. */
export interface Flood {
  readonly rate: Fraction;
  readonly atoms: number;
  readonly leftOut?: boolean;
}

export type Rate = Flood | Series;

export function ratioOf(text: Json | undefined): Fraction {
  const ratio = fraction(text);
  if (ratio.over < 1n || (ratio.under - ratio.over) << 30n < ratio.under) {
    throw new UnsupportedPlan("a ratio of the plan is not above 0 and below 1");
  }
  return ratio;
}

/**
 * The tables for bursts with these rates, of which a device sends `share` over `cutFor`.
 *
 * Binary digits are enough for the smallest chance that is looked at: e^−mean, and 2⁻¹²⁸.
 */
export function bursts(rates: readonly Rate[], share: number, cutFor: number): Bursts {
  const about = meanOf(rates, share, cutFor, 256n);
  const mean = Number(about.mean >> 224n) / 2 ** 32;
  if (mean > MOST_BURSTS) throw new UnsupportedPlan("the plan asks for more noise than a report can hold");
  const bits = 384n + BigInt(Math.ceil(1.5 * mean));
  const exact = meanOf(rates, share, cutFor, bits);
  const none = exponential(exact.mean, bits);
  // e^−mean may be a whole number of 2⁻⁶⁴: what its own rounding takes away is given back first.
  const some = ((((1n << bits) - none + (1n << (bits - 250n))) << 64n) >> bits) + 1n;
  const any = some > 1n << 64n ? 1n << 64n : some;
  const chances: bigint[] = [];
  // Chances rise up to the mean: a tiny one before it is not the end of them.
  for (let chance = none; chances.length < mean || chance >> (bits - 190n) > 0n; ) {
    chance = (chance * exact.mean) / (BigInt(chances.length + 1) << bits);
    chances.push((chance << 192n) / (any << bits));
  }
  return {
    any: chanceOf(any),
    numbers: sums([0n, ...chances]),
    kinds: sums(exact.rates.map((rate) => (rate << 128n) / exact.total)),
  };
}

function meanOf(rates: readonly Rate[], share: number, cutFor: number, bits: bigint) {
  const listed: bigint[] = [];
  let total = 0n;
  for (const rate of rates) {
    if ("ratio" in rate) {
      const { over, under } = rate.ratio;
      total += logarithm((under << bits) / (under - over), bits);
      let power = 1n << bits;
      for (let k = 1n; k <= rate.room; k++) {
        power = (power * over) / under;
        listed.push(power / k);
      }
    } else {
      const all = fixed(rate.rate, bits) * BigInt(rate.atoms);
      total += all;
      if (!rate.leftOut) listed.push(all);
    }
  }
  return { rates: listed, total, mean: (total * BigInt(share)) / BigInt(cutFor) };
}

function sums(weights: readonly bigint[]): bigint[] {
  let sum = 0n;
  return weights.map((weight) => (sum += weight));
}

/** The kinds of the bursts of one report; the number of kinds stands for one that is left out. */
export function drawBursts(table: Bursts, words: Words): number[] {
  if (!coins(words, table.any, 1)[0]) return [];
  const [number] = fromTable(words, table.numbers, 1);
  // What the table of numbers leaves over is how far `any` is rounded up: no burst after all.
  return fromTable(words, table.kinds, number === table.numbers.length ? 0 : number);
}

/** Places in a table of sums: how many of them are not above a number of 128 bits. */
function fromTable(words: Words, table: readonly bigint[], count: number): number[] {
  const drawn = words.take(2 * count);
  const found: number[] = [];
  for (let at = 0; at < count; at++) {
    const halves = [drawn[2 * at], drawn[2 * at + 1], drawn[2 * (count + at)], drawn[2 * (count + at) + 1]];
    const number = halves.reduce((sum, half) => (sum << 32n) | BigInt(half), 0n);
    let [from, to] = [0, table.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (table[middle] <= number) from = middle + 1;
      else to = middle;
    }
    found.push(from);
  }
  drawn.fill(0);
  return found;
}

