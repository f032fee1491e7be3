/** Signed decoys: an answer in clear, and a share of noise of both signs that the crowd sends together. */

import { bursts, drawBursts, ratioOf, type Bursts, type Rate } from "./bursts.ts";
import type { JsonObject } from "./canonical.ts";
import { fraction } from "./exact.ts";
import type { Encoder, Shape } from "./protocols.ts";
import { fields, list, requireFit, whole } from "./reading.ts";
import { below, roundByChance, type Words } from "./words.ts";

/** So many pluses and minuses at a digit. */
type Kind = readonly [digit: number, pluses: number, minuses: number];

export function signed(protocol: JsonObject, shape: Shape, labels: number): Encoder {
  fields(protocol, ["kind", "ratio", "flood", "cut_for", "room"], ["steps", "finer", "doubled"]);
  const room = whole(protocol.room, 0, 4096);
  const cutFor = whole(protocol.cut_for, 1, Number.MAX_SAFE_INTEGER);
  requireFit((shape === "number") === (protocol.steps !== undefined));
  // Noise in twos, where every answer is a plus or a minus.
  const doubled = protocol.doubled !== undefined;
  requireFit(!doubled || (protocol.doubled === true && (shape === "bit" || shape === "flags")));
  requireFit(protocol.finer === undefined || protocol.steps !== undefined);
  const finer = protocol.finer === undefined ? [] : list(protocol.finer, 10, 1).map((one) => fields(one, ["ratio", "flood", "steps"]));
  const digits = [protocol, ...finer];
  const sizes = digits.map((digit) => (digit.steps === undefined ? 1 : whole(digit.steps, 1, 1000)) + 1);
  const resolution = sizes.reduce((product, size) => product * size) - 1;
  requireFit(resolution <= 1000);
  const values = shape === "bit" || shape === "number" ? 1 : labels;
  const [kinds, rates] = kindsOf(digits, room, doubled ? 2 : 1);
  let known: Bursts | undefined;
  const table = () => (known ??= bursts(rates, values, cutFor));

  function held(answer: number | readonly number[], words: Words): number[] {
    if (typeof answer !== "number") {
      return Array.from({ length: labels }, (_, label) => 2 * label + Number(!answer.includes(label)));
    }
    if (shape === "choice") return [2 * answer];
    if (shape === "bit") return [answer ? 0 : 1];
    let left = roundByChance(words, Math.min(answer * resolution, resolution));
    return sizes
      .map((size, digit) => [size, digit])
      .reverse()
      .flatMap(([size, digit]) => {
        const pluses = left % size;
        left = (left - pluses) / size;
        return Array.from({ length: size - 1 }, (_, step) => 2 * digit + Number(step >= pluses));
      });
  }

  function noise(words: Words): number[] {
    const drawn = drawBursts(table(), words);
    const places = below(words, values, drawn.length);
    const found = drawn.flatMap((kind, at) => {
      const [digit, pluses, minuses] = kinds[kind] ?? [0, 0, 0];
      // An answer has several values or several digits, never both.
      const plus = 2 * (places[at] + digit);
      return [...Array(pluses).fill(plus), ...Array(minuses).fill(plus + 1)] as number[];
    });
    // What does not fit is dropped whole: the delta of the plan includes the chance of that.
    return found.length <= room ? found : [];
  }

  const messages = shape === "number" ? sizes.reduce((sum, size) => sum + size - 1, 0) : shape === "flags" ? labels : 1;
  return {
    codes: 2 * values * digits.length,
    slots: messages + room,
    varies: true,
    table,
    draw: (answer, words) => [...held(answer, words), ...noise(words)],
  };
}

/** The kinds of bursts in the order of their table, with their rates. */
function kindsOf(digits: readonly JsonObject[], room: number, unit: number): [Kind[], Rate[]] {
  const kinds: Kind[] = [];
  const rates: Rate[] = [];
  digits.forEach((digit, place) => {
    const ratio = ratioOf(digit.ratio);
    for (const plus of [1, 0]) {
      const most = Math.floor(room / unit);
      for (let k = 1; k <= most; k++) kinds.push([place, unit * k * plus, unit * k * (1 - plus)]);
      rates.push({ ratio, room: most });
    }
    list(digit.flood, 10_000).forEach((rate, at) => {
      const leftOut = 2 * (at + 1) > room;
      if (!leftOut) kinds.push([place, at + 1, at + 1]);
      rates.push({ rate: fraction(rate), atoms: 1, leftOut });
    });
  });
  return [kinds, rates];
}
