/**
 * The chance that too few of the others are honest, where each is only with some chance.
 *
 * Chernoff: P[Bin(m, h) ≤ s] is at most (h·m/s)^s·((1 − h)·m/(m − s))^(m − s) for s < h·m, where m and
 * s are those without the one who is protected. A hop that splits a pool may try that again with half
 * as many parts, which are twice as large: then the square of it is added, and so on. The sum is at
 * most x/(1 − x). The powers are huge and tiny, so this is done with whole numbers.
 */

import { fraction } from "../exact.ts";
import type { Json } from "../canonical.ts";
import { NotProved } from "./arithmetic.ts";

const FINE = 192n;

/** m·2^e. */
type Power = readonly [m: bigint, e: bigint];

export function shortfall(users: number, reports: number, share: Json | undefined): number {
  const { over: hits, under: all } = fraction(share);
  if (!(hits * 1000n >= all && hits < all)) throw new NotProved("the honest share is not at least 0.001 and below 1");
  const [others, few] = [BigInt(reports - 1), BigInt(users - 2)];
  if (users === 1) return 0;
  if (hits * others <= few * all) return 1;
  const [first, by] = few ? powerAbove(hits * others, all * few, few) : [1n, 0n];
  const [second, more] = powerAbove((all - hits) * others, all * (others - few), others - few);
  // In units of 2^-FINE, rounded up.
  const shift = by + more + FINE;
  const once = shift >= 0n ? (first * second) << shift : shift < -4000n ? 1n : ((first * second) >> -shift) + 1n;
  if (2n * once >= 1n << FINE) return 1;
  return Number((once << FINE) / ((1n << FINE) - once) + 1n) / 2 ** Number(FINE);
}

/** More than (over/under)^exponent: squares, rounded up. */
function powerAbove(over: bigint, under: bigint, exponent: bigint): Power {
  const short = ([m, e]: Power): Power => {
    const spare = BigInt(Math.max(m.toString(2).length - 2 * Number(FINE), 0));
    return [(m >> spare) + 1n, e + spare];
  };
  let found: Power = [1n, 0n];
  let square = short([(over << (4n * FINE)) / under + 1n, -4n * FINE]);
  for (let left = exponent; left > 0n; left >>= 1n) {
    if (left & 1n) found = short([found[0] * square[0], found[1] + square[1]]);
    square = short([square[0] * square[0], 2n * square[1]]);
  }
  return found;
}
