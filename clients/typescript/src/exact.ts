/** Exact numbers of plans, and logarithms and exponentials to as many binary digits as are asked for. */

import { UnsupportedPlan } from "./errors.ts";
import type { Json } from "./canonical.ts";

/** A number over a power of ten, as the decimal text of a plan says it. */
export interface Fraction {
  readonly over: bigint;
  readonly under: bigint;
}

const DECIMAL = /^(0|[1-9][0-9]{0,30})(?:\.([0-9]{1,200}))?$/;

export function fraction(text: Json | undefined): Fraction {
  const found = typeof text === "string" ? DECIMAL.exec(text) : null;
  if (!found) throw new UnsupportedPlan("a probability of the plan is not written out in full");
  const digits = found[2] ?? "";
  return { over: BigInt(found[1] + digits), under: 10n ** BigInt(digits.length) };
}

/** The k of a chance k/2⁶⁴ above 0 and at most 1; any other one is refused. */
export function grains(text: Json | undefined): bigint {
  const { over, under } = fraction(text);
  const k = (over << 64n) / under;
  if (k * under !== over << 64n || k < 1n || k > 1n << 64n) {
    throw new UnsupportedPlan("a probability of the plan is no multiple of 2⁻⁶⁴ from 0 to 1");
  }
  return k;
}

// ---------------------------------------------------------------------------
// Fixed point: a number x is the BigInt ⌊x · 2^bits⌋, up to a few units.

export function fixed({ over, under }: Fraction, bits: bigint): bigint {
  return (over << bits) / under;
}

/** The natural logarithm of x ≥ 1. */
export function logarithm(x: bigint, bits: bigint): bigint {
  const one = 1n << bits;
  let doublings = 0n;
  for (; x >= 2n * one; x >>= 1n) doublings++;
  return twiceArtanh(x - one, x + one, bits) + doublings * twiceArtanh(1n, 3n, bits);
}

/** 2·artanh(over/under), which is ln((under + over)/(under − over)). */
function twiceArtanh(over: bigint, under: bigint, bits: bigint): bigint {
  const square = ((over * over) << bits) / (under * under);
  let power = (over << bits) / under;
  let sum = 0n;
  for (let k = 1n; power > 0n; k += 2n) {
    sum += power / k;
    power = (power * square) >> bits;
  }
  return 2n * sum;
}

/** e^−x for x ≥ 0. */
export function exponential(x: bigint, bits: bigint): bigint {
  const halvings = BigInt(Math.max(0, x.toString(2).length - Number(bits) + 8));
  const small = x >> halvings;
  let term = 1n << bits;
  let sum = term;
  for (let k = 1n; term > 0n; k++) {
    term = ((term * small) >> bits) / k;
    sum += k % 2n ? -term : term;
  }
  for (let left = halvings; left > 0n; left--) sum = (sum * sum) >> bits;
  return sum;
}
