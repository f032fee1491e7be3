/** Weighted numbers: a sum in a message or two, in clear, among noise that cancels but for the sum's own. */

import { bursts, drawBursts, ratioOf, type Bursts, type Rate } from "./bursts.ts";
import type { JsonObject } from "./canonical.ts";
import { fraction } from "./exact.ts";
import type { Encoder, Shape } from "./protocols.ts";
import { fields, list, requireFit, whole } from "./reading.ts";
import { below, roundByChance, type Words } from "./words.ts";

const MOST_STEPS = 1 << 20;
const MOST_CODES = 1 << 17;
const FLOODS = ["code_flood", "link_flood", "top_flood", "whole_flood"] as const;

/** Codes in a row: the first one, its weight, how many there are, and how far apart they weigh. */
interface Group {
  readonly first: number;
  readonly least: number;
  readonly number: number;
  readonly grain: number;
}

/** A kind of burst: so many times an atom, one of `choices` that `atom` counts. */
interface Kind {
  readonly choices: number;
  readonly times: number;
  readonly atom: (choice: number) => number[];
}

export function weighted(protocol: JsonObject, shape: Shape): Encoder {
  const needed = ["kind", "tops", "levels", "ratio", "code_flood", "link_flood", "top_flood", "cut_for", "room"];
  fields(protocol, needed, ["whole_flood"]);
  requireFit(shape === "number");
  const room = whole(protocol.room, 0, 4096);
  const cutFor = whole(protocol.cut_for, 1, Number.MAX_SAFE_INTEGER);
  const isWhole = protocol.whole_flood !== undefined;
  const levels = list(protocol.levels, 20, 1).map((group) => list(group, 20, 1));
  const layout = layoutOf(whole(protocol.tops, 1, MOST_STEPS), levels.map((group) => group.length), isWhole);
  const [kinds, rates] = kindsOf(protocol, layout, room);
  let known: Bursts | undefined;
  const table = () => (known ??= bursts(rates, 1, cutFor));

  function noise(words: Words): number[] {
    const drawn = drawBursts(table(), words)
      .filter((kind) => kind < kinds.length)
      .map((kind) => kinds[kind]);
    const atoms: number[][] = Array(drawn.length);
    // Of kinds with several atoms each is as likely as another; those with the fewest come first.
    for (const choices of [...new Set(drawn.map((kind) => kind.choices))].sort((one, other) => one - other)) {
      const places = [...drawn.keys()].filter((at) => drawn[at].choices === choices);
      const chosen = choices === 1 ? places.map(() => 0) : below(words, choices, places.length);
      places.forEach((at, number) => (atoms[at] = drawn[at].atom(chosen[number])));
    }
    const found = drawn.flatMap((kind, at) => Array.from({ length: kind.times }, () => atoms[at]).flat());
    // What does not fit is dropped whole: the delta of the plan includes the chance of that.
    return found.length <= room ? found : [];
  }

  return {
    codes: layout.tops + 2,
    slots: (isWhole ? 1 : levels.length) + room,
    varies: true,
    table,
    draw(answer, words) {
      const steps = roundByChance(words, Math.min((answer as number) * layout.steps, layout.steps));
      return [...(isWhole ? [steps] : layout.parts(steps - layout.middle)), ...noise(words)];
    },
  };
}

interface Layout {
  readonly steps: number;
  readonly middle: number;
  /** How many whole codes there are. */
  readonly whole: number;
  /** The first unit, and the first top. */
  readonly units: number;
  readonly tops: number;
  readonly groups: readonly Group[];
  /** The code of each group, whose weights add up to this one. */
  parts(weight: number): number[];
  /** The units and tops that weigh so much. */
  balance(weight: number): number[];
}

function layoutOf(tops: number, sizes: readonly number[], isWhole: boolean): Layout {
  const levels = sizes.reduce((sum, size) => sum + size);
  const steps = tops * 2 ** levels;
  requireFit(steps <= MOST_STEPS);
  const middle = Math.floor(steps / 2);
  const groups: Group[] = [];
  let ends = [-middle, steps - middle];
  let first = isWhole ? steps + 1 : 0;
  let level = 0;
  for (const size of sizes.slice(0, -1)) {
    const signs = Array.from({ length: size }, (_, digit) => -((-2) ** (level + digit)));
    const least = signs.reduce((sum, weight) => sum + Math.min(weight, 0), 0);
    groups.push({ first, least, number: 2 ** size, grain: 2 ** level });
    first += 2 ** size;
    level += size;
    // What is left is a multiple of the next grain.
    ends = ends.map((end) => Math.floor((end - least) / 2 ** level) * 2 ** level);
  }
  const number = (ends[1] - ends[0]) / 2 ** level + 1;
  groups.push({ first, least: ends[0], number, grain: 2 ** level });
  const units = first + number;
  requireFit(units + levels + 2 <= MOST_CODES);
  return {
    steps,
    middle,
    whole: isWhole ? steps + 1 : 0,
    units,
    tops: units + levels,
    groups,
    parts(weight) {
      return groups.map((group, at) => {
        const steps = Math.floor((weight - group.least) / group.grain);
        const index = at < groups.length - 1 ? modulo(steps, group.number) : steps;
        weight -= group.least + group.grain * index;
        return group.first + index;
      });
    },
    balance(weight) {
      const found: number[] = [];
      for (let unit = units; unit < units + levels; unit++) {
        const digit = modulo(weight, 2);
        if (digit) found.push(unit);
        weight = (weight - digit) / -2;
      }
      return [...found, ...Array<number>(Math.abs(weight)).fill(units + levels + Number(weight < 0))];
    },
  };
}

function modulo(number: number, by: number): number {
  return number - by * Math.floor(number / by);
}

/** The kinds of bursts in the order of their table, with their rates. */
function kindsOf(protocol: JsonObject, layout: Layout, room: number): [Kind[], Rate[]] {
  const { units, tops, groups } = layout;
  const kinds: Kind[] = [];
  const rates: Rate[] = [];
  list(protocol.levels, 20)
    .flatMap((group) => list(group, 20))
    .forEach((rate, level) => {
      kinds.push({ choices: 1, times: 1, atom: () => [units + level] });
      rates.push({ rate: fraction(rate), atoms: 1 });
    });
  const codes = units - layout.whole;
  const atoms: Record<(typeof FLOODS)[number], [number, Kind["atom"]]> = {
    code_flood: [
      codes,
      (choice) => {
        const code = layout.whole + choice;
        const group = groups.filter((one) => one.first <= code).at(-1) as Group;
        return [code, ...layout.balance(-(group.least + group.grain * (code - group.first)))];
      },
    ],
    link_flood: [tops - units, (choice) => [units + choice, units + choice, units + choice + 1]],
    top_flood: [1, () => [tops, tops + 1]],
    whole_flood: [layout.whole, (choice) => [choice, ...layout.parts(layout.middle - choice)]],
  };
  for (const name of FLOODS) {
    const [choices, atom] = atoms[name];
    list(protocol[name] ?? [], 10_000).forEach((rate, at) => {
      kinds.push({ choices, times: at + 1, atom });
      rates.push({ rate: fraction(rate), atoms: choices });
    });
  }
  const ratio = ratioOf(protocol.ratio);
  for (const top of [tops, tops + 1]) {
    for (let k = 1; k <= room; k++) kinds.push({ choices: 1, times: k, atom: () => [top] });
    rates.push({ ratio, room });
  }
  return [kinds, rates];
}
