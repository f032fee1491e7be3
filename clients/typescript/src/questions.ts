/** Answers as the numbers that the protocols take; what is no answer is refused, and never repeated. */

import type { Json, JsonObject } from "./canonical.ts";
import { InvalidAnswer, UnsupportedPlan } from "./errors.ts";
import type { Prepared, Shape } from "./protocols.ts";
import { fields, flag, list, object, real, text, whole } from "./reading.ts";
import { roundByChance, type Words } from "./words.ts";

/** What people answer: null is a missing answer. */
export type Answer = null | boolean | string | number | readonly string[] | { readonly [name: string]: Answer };

export interface Question {
  readonly shape: Shape;
  /** How many answers, or flags, there are. */
  readonly labels: number;
  /** The names under which answers are given: of a cross those of its questions. */
  readonly asked?: readonly string[];
  /** Whether a number is missing is counted by the bit behind it. */
  readonly countsGaps?: boolean;
  /** Behind a number stands its squared distance from the middle of its range. */
  readonly asksSpread?: boolean;
  /** Return the answer as a number; NaN for a missing one that is counted by itself. */
  prepare(answer: Answer): Prepared;
  /** Move an answer between two levels to one of them, by chance. */
  settle?(answer: number, words: Words): number;
}

const MOST_LABELS = 1_000_000;

export function questionOf(document: Json): Question {
  switch (object(document).kind) {
    case "bit":
      return bit(document);
    case "choice":
      return choice(document);
    case "flags":
      return flags(document);
    case "number":
      return number(document);
    case "cross":
      return cross(document);
    default:
      throw new UnsupportedPlan("the plan has a question of a kind that this client does not know");
  }
}

function invalid(rule: string): never {
  throw new InvalidAnswer(`An answer must be ${rule}.`);
}

function bit(document: Json): Question {
  const { missing } = fields(document, ["kind", "missing"]);
  const gap = { no: 0, yes: 1, count: 2 }[text(missing)];
  const counts = missing === "count";
  return {
    shape: counts ? "choice" : "bit",
    labels: counts ? 3 : 2,
    prepare(answer) {
      if (answer === null) return gap ?? invalid("given, not missing");
      if (answer === true || answer === "yes") return 1;
      if (answer === false || answer === "no") return 0;
      return invalid('true or false, "yes" or "no", or null for a missing one');
    },
  };
}

function choice(document: Json): Question {
  const { values, missing, unknown } = fields(document, ["kind", "missing", "values", "unknown"]);
  const [size, place] = placesOf(values);
  const counts = missing === "count";
  const gap = counts ? size : missing === "refuse" ? undefined : place(text(missing));
  const rest = unknown === null ? undefined : place(text(unknown));
  if (size + Number(counts) > MOST_LABELS || size < 1) throw new UnsupportedPlan("a choice of the plan is too long");
  return {
    shape: "choice",
    labels: size + Number(counts),
    prepare(answer) {
      if (answer === null) return gap ?? invalid("given, not missing");
      if (typeof answer !== "string" && !Number.isSafeInteger(answer)) invalid("one of the values, or null for a missing one");
      // Nothing but blanks is no value and no gap: silence must be meant.
      const name = String(answer).trim();
      return place(name) ?? (name === "" ? undefined : rest) ?? invalid("one of the values of the question");
    },
  };
}

/** How many values there are, and the place of each: of a list, or of whole numbers in a row. */
function placesOf(values: Json): [number, (name: string) => number | undefined] {
  if (Array.isArray(values)) {
    const places = new Map(list(values, MOST_LABELS, 1).map((value, at) => [text(value), at]));
    return [values.length, (name) => places.get(name)];
  }
  const range = fields(values, ["first", "last"]);
  const first = whole(range.first, -1e15, 1e15);
  const last = whole(range.last, first, 1e15);
  return [
    last - first + 1,
    (name) => {
      const place = /^(0|-?[1-9][0-9]*)$/.test(name) ? Number(name) - first : -1;
      return place >= 0 && place <= last - first ? place : undefined;
    },
  ];
}

function flags(document: Json): Question {
  const { names, missing } = fields(document, ["kind", "missing", "names"]);
  const known = list(names, 64, 1).map(text);
  const gap = { none: [], count: [known.length] }[text(missing)];
  return {
    shape: "flags",
    labels: known.length + Number(missing === "count"),
    prepare(answer) {
      if (answer === null) return gap ?? invalid("given, not missing");
      if (typeof answer !== "object") invalid("a list of the flags that hold, or null for a missing one");
      const held = Array.isArray(answer) ? answer : Object.entries(answer).filter(([, holds]) => holds).map(([name]) => name);
      const given = Array.isArray(answer) ? answer : Object.keys(answer);
      if (!given.every((name) => known.includes(name))) invalid("made of names of flags of the question");
      if (!Array.isArray(answer) && !Object.values(answer).every((holds) => typeof holds === "boolean")) invalid("true or false for every flag");
      return [...known.keys()].filter((place) => held.includes(known[place]));
    },
  };
}

function number(document: Json): Question {
  const said = fields(document, ["kind", "missing", "low", "high", "unit", "clip", "quantiles"], ["spread"]);
  const [low, high, clip] = [real(said.low), real(said.high), flag(said.clip)];
  const counts = said.missing === "count";
  const gap = counts ? NaN : said.missing === "refuse" ? undefined : share(real(said.missing));
  if (!(low < high)) throw new UnsupportedPlan("the bounds of a number of the plan are in the wrong order");

  function share(value: number): number {
    return Math.min((value - low) / (high - low), 1);
  }

  return {
    shape: "number",
    labels: 0,
    countsGaps: counts,
    asksSpread: said.spread !== undefined && flag(said.spread),
    prepare(answer) {
      if (answer === null) return gap ?? invalid("given, not missing");
      if (typeof answer !== "number" || Number.isNaN(answer)) return invalid("a number, or null for a missing one");
      const value = clip ? Math.min(Math.max(answer, low), high) : answer;
      return value >= low && value <= high ? share(value) : invalid(`from ${low} to ${high}`);
    },
  };
}

function cross(document: Json): Question {
  const said = fields(document, ["kind", "questions", "levels"]);
  const parts = list(said.questions, 100, 2).map((one) => fields(one, ["name", "question"]));
  const asked = parts.map((one) => text(one.name));
  const questions = parts.map((one) => questionOf(one.question));
  const fits = questions.every((one, at) => !one.asked && (one.shape === "bit" || one.shape === "choice" || (one.shape === "number" && !one.asksSpread && at === questions.length - 1)));
  const levels = said.levels === null ? 0 : whole(said.levels, 2, 1000);
  const sizes = questions.map((one) => (one.shape === "number" ? levels + Number(one.countsGaps) : one.labels));
  const labels = sizes.reduce((product, size) => product * size, 1);
  if (!fits || labels < 1 || labels > MOST_LABELS) throw new UnsupportedPlan("a cross of the plan is none that this client knows");
  const found: Question = {
    shape: "choice",
    labels,
    asked,
    prepare(answer) {
      const given = named(answer, asked);
      return questions.reduce((sum, one, at) => {
        const own = one.prepare(given[asked[at]]) as number;
        // A counted gap stands above all levels.
        const height = one.shape !== "number" ? own : Number.isNaN(own) ? levels : own * (levels - 1);
        return sum * sizes[at] + height;
      }, 0);
    },
  };
  return levels ? { ...found, settle: (answer, words) => roundByChance(words, answer) } : found;
}

/** Answers by name: exactly these names, because silence must be meant. */
export function named(answer: Answer, names: readonly string[]): { readonly [name: string]: Answer } {
  const plain = typeof answer === "object" && answer !== null && !Array.isArray(answer);
  const given = plain ? (answer as JsonObject) : {};
  if (!plain || Object.keys(given).length !== names.length || !names.every((name) => Object.hasOwn(given, name))) {
    return invalid(`an object with exactly these names: ${names.join(", ")} (null for a missing answer)`);
  }
  return given as { readonly [name: string]: Answer };
}
