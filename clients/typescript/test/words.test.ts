/** Draws are exact: at every border, and by chi-square with a false alarm in a million runs each. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { canonical } from "../src/canonical.ts";
import { exponential, fraction, grains, logarithm } from "../src/exact.ts";
import { below, chanceOf, coins, roundByChance, secureWords, shuffle, type Words } from "../src/words.ts";
import { Given } from "./words.ts";

const FALSE_ALARM = 4.7534; // standard deviations, of one side: 1e-6

/** What chi-square is above once in a million, by Wilson and Hilferty. */
function limit(cells: number): number {
  const part = 2 / (9 * (cells - 1));
  return (cells - 1) * (1 - part + FALSE_ALARM * Math.sqrt(part)) ** 3;
}

function chiSquare(counts: readonly number[], chances: readonly number[]): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return counts.reduce((sum, count, at) => sum + (count - total * chances[at]) ** 2 / (total * chances[at]), 0);
}

function tally(cells: number, draws: Iterable<number>): number[] {
  const counts = Array<number>(cells).fill(0);
  for (const one of draws) counts[one]++;
  return counts;
}

test("a coin compares its word with k, at every border of both halves", () => {
  const edges = [0n, 1n, 0xffff_fffen, 0xffff_ffffn, 1n << 32n, (1n << 32n) + 1n, (5n << 32n) - 1n, 5n << 32n, (1n << 63n) - 1n, 1n << 63n, (1n << 64n) - 1n];
  for (const k of [...edges, 1n << 64n]) {
    const words = edges.flatMap((edge) => [edge, edge ^ 1n, edge ^ (1n << 32n)]);
    const found = coins(new Given(words), chanceOf(k), words.length);
    assert.deepEqual([...found], words.map((word) => Number(word < k)), String(k));
  }
});

test("a number below a bound rejects exactly the words that would make it uneven", () => {
  for (const bound of [1n, 2n, 3n, 5n, 7n, 1000n, 1_000_000n, (1n << 21n) - 1n]) {
    const limit = ((1n << 64n) / bound) * bound;
    const words = [limit - 1n, limit - 2n, limit, 0n, bound - 1n, bound].filter((word) => word >= 0n && word < 1n << 64n);
    const kept = words.filter((word) => word < limit).map((word) => Number(word % bound));
    assert.deepEqual(below(new Given(words), Number(bound), kept.length), kept);
  }
});

test("heights are rounded with a chance that is cut to a multiple of 2⁻⁶⁴", () => {
  for (const height of [0, 0.5, 1, 2.25, 1 - 2 ** -53, 3e-20, 2 ** -60 * 3, 1e5 + 0.1]) {
    const full = Math.floor(height);
    const k = BigInt(Math.floor((height - full) * 2 ** 64));
    assert.equal(roundByChance(new Given([k]), height), full);
    if (k) assert.equal(roundByChance(new Given([k - 1n]), height), full + 1);
  }
});

test("coins have their chance (a coin that is off by 2 % fails)", () => {
  const [k, many] = [1n << 62n, 400_000];
  const counts = tally(2, coins(secureWords, chanceOf(k), many));
  assert.ok(chiSquare(counts, [0.75, 0.25]) < limit(2));
  const off = tally(2, coins(secureWords, chanceOf((k * 102n) / 100n), many));
  assert.ok(chiSquare(off, [0.75, 0.25]) > limit(2));
});

test("numbers below a bound are uniform", () => {
  assert.ok(chiSquare(tally(7, below(secureWords, 7, 140_000)), Array(7).fill(1 / 7)) < limit(7));
});

/** All orders of five by their rank. */
function rank(order: readonly number[]): number {
  return order.reduce((sum, one, at) => sum * (5 - at) + order.slice(at + 1).filter((other) => other < one).length, 0);
}

test("all 120 orders of five are as likely (an order by two swaps fails)", () => {
  const draw = (mix: (items: number[]) => number[]) => {
    const ranks = Array.from({ length: 24_000 }, () => rank(mix([0, 1, 2, 3, 4])));
    return chiSquare(tally(120, ranks), Array(120).fill(1 / 120));
  };
  assert.ok(draw((items) => shuffle(secureWords, items)) < limit(120));
  const swapping = (items: number[]) => {
    for (let turn = 0; turn < 2; turn++) {
      const [one, two] = below(secureWords, 5, 2);
      [items[one], items[two]] = [items[two], items[one]];
    }
    return items;
  };
  assert.ok(draw(swapping) > limit(120));
});

test("more words than the system gives at once, all different, and wiped after use", () => {
  const words = secureWords.take(40_000);
  assert.equal(words.length, 80_000);
  const pairs = new Set(Array.from({ length: 40_000 }, (_, at) => words[2 * at] * 2 ** 21 + (words[2 * at + 1] >>> 11)));
  assert.equal(pairs.size, 40_000);
  const seen: Uint32Array[] = [];
  const spy: Words = { take: (count) => (seen.push(secureWords.take(count)), seen[seen.length - 1]) };
  coins(spy, chanceOf(1n << 63n), 20_000);
  below(spy, 5, 10);
  assert.ok(seen.every((one) => one.every((half) => half === 0)));
});

test("logarithms and exponentials to 200 binary digits, against what they are known to be", () => {
  const bits = 256n;
  const one = 1n << bits;
  const near = (found: bigint, digits: string) => {
    const known = (BigInt(digits.replace(".", "")) << bits) / 10n ** BigInt(digits.split(".")[1].length);
    assert.ok((found > known ? found - known : known - found) >> (bits - 200n) === 0n, digits);
  };
  near(logarithm(2n * one, bits), "0.69314718055994530941723212145817656807550013436025525412068000949339362196969471560586");
  near(logarithm(10n * one, bits), "2.30258509299404568401799145468436420760110148862877297603332790096757260967735248023600");
  near(exponential(one, bits), "0.36787944117144232159552377016146086744581113103176783450783680169746149574489980335714727434591964");
  near(exponential(10n * one, bits), "0.00004539992976248485153559151556055061023791808886656496925907130565099942161430228165252500454594778232");
  assert.equal(logarithm(one, bits), 0n);
  assert.equal(exponential(0n, bits), one);
});

test("chances are read exactly, or refused", () => {
  assert.deepEqual(fraction("0.25"), { over: 25n, under: 100n });
  assert.equal(grains("1"), 1n << 64n);
  assert.equal(grains("0.0000000000000000000542101086242752217003726400434970855712890625"), 1n);
  for (const wrong of ["0", "0.1", "1.5", "-0.5", ".5", "5e-1", "0.5 ", "00.5", "NaN", "", 0.5, null, undefined, "2"]) {
    assert.throws(() => grains(wrong as never), /probability/, String(wrong));
  }
});

test("the canonical form is that of RFC 8785", () => {
  const given = { "\u20ac": "Euro Sign", "\r": "Carriage Return", "1": "One", "\u0080": "Control\u007f", "\u00f6": [1, true, null], "\ud83d\ude00": "" };
  const expected = '{"\\r":"Carriage Return","1":"One","\u0080":"Control\u007f","ö":[1,true,null],"€":"Euro Sign","😀":""}';
  assert.equal(canonical(given), expected);
  assert.equal(canonical("\u20ac$\u000f\nA'B\"\\\\\"/"), '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"');
  for (const wrong of ["\ud800", { "\udc00": 1 }, 0.5, 2 ** 53, NaN]) assert.throws(() => canonical(wrong as never));
});
