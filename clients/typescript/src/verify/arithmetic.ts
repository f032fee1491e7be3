/**
 * Arithmetic that errs on the safe side.
 *
 * ECMAScript rounds +, −, × and ÷ exactly, and nothing else is used here. So what only adds,
 * multiplies and divides positive numbers is off by a factor (1 ± UNIT) for each operation, and a
 * difference of two such numbers is bounded by that of their far ends. Every comparison is written
 * so that NaN fails it.
 */

import { grains } from "../exact.ts";
import type { Json } from "../canonical.ts";

/** How far one operation is off at most, as a share of its result. */
export const UNIT = 2 ** -53;

/** More than what `steps` operations in a row make of 1. */
export function over(steps: number): number {
  return 1 + 2 * steps * UNIT;
}

/** Why something is not proved. */
export class NotProved extends Error {}

/** A probability k/2⁶⁴ and that of the contrary, each rounded once. */
export interface Chance {
  readonly hit: number;
  readonly miss: number;
}

export function chanceIn(text: Json | undefined): Chance {
  const k = grains(text);
  return { hit: Number(k) / 2 ** 64, miss: Number((1n << 64n) - k) / 2 ** 64 };
}

/** e^x, and the share by which that may be off: a sum of its series, squared again and again. */
function exponential(x: number): [number, number] {
  if (!(x >= 0 && x <= 700)) throw new NotProved("an exponent is too large");
  let halvings = 0;
  for (; x > 0.5; x /= 2) halvings++;
  let [term, sum] = [1, 1];
  for (let k = 1; k <= 24; k++) {
    term = (term * x) / k;
    sum += term;
  }
  // What is left out is below 0.5^25/25!, far below a rounding.
  for (let k = 0; k < halvings; k++) sum *= sum;
  return [sum, 128 * 2 ** halvings * UNIT];
}

export function exponentialBelow(x: number): number {
  const [found, off] = exponential(x);
  return found * (1 - 2 * off);
}

export function exponentialAbove(x: number): number {
  const [found, off] = exponential(x);
  return found * (1 + 2 * off);
}

/** A number above x^times, for x ≥ 0. */
export function powerAbove(x: number, times: number): number {
  let found = 1;
  for (let left = times; left > 0; left = Math.floor(left / 2)) {
    if (left % 2) found *= x;
    x *= x;
  }
  // The first factor was rounded, and each of `times` factors is as good as one product.
  return found * over(4 * times + 64) + 1e-300;
}

/** How much a plan may make a device compute, and when the page gets its turn. */
export class Effort {
  #left: number;
  #since = performance.now();

  constructor(most: number) {
    this.#left = most;
  }

  /** Count operations before they are done. */
  spend(operations: number): void {
    this.#left -= operations;
    if (!(this.#left >= 0)) throw new NotProved("it takes too long to verify");
  }

  /** Let whatever else waits in this thread run, if it has waited for long. */
  async breathe(): Promise<void> {
    if (performance.now() - this.#since < LONGEST) return;
    // No timer: pages in the background get one a second.
    const { port1, port2 } = new MessageChannel();
    await new Promise((resolve) => {
      port1.onmessage = resolve;
      port2.postMessage(0);
    });
    port1.close();
    this.#since = performance.now();
  }
}

/** Milliseconds. */
const LONGEST = 20;
