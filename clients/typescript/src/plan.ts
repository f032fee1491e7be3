/** The plan: one document, pinned by its id, that says what is asked, how it is protected, and who runs it. */

import { hex, sha256, utf8 } from "./bytes.ts";
import { canonical, type Json, type JsonObject } from "./canonical.ts";
import { InvalidAnswer, PlanNotTrusted, UnsupportedPlan } from "./errors.ts";
import { encoderOf, type Encoder, type Prepared } from "./protocols.ts";
import { named, questionOf, type Answer, type Question } from "./questions.ts";
import { fields, list, object, real, text, whole } from "./reading.ts";
import type { Words } from "./words.ts";

export interface Party {
  readonly name: string;
  /** Its Ed25519 key, in hexadecimal digits. */
  readonly identity: string;
}

/** A question with the protocol that protects it. */
export interface Part {
  readonly name: string;
  readonly question: Question;
  readonly encoder: Encoder;
  /** The number that this follows from, which nobody is asked: a bit, whether it was answered; a number, its square. */
  readonly answersTo?: string;
  /** Both as they stand in the plan. */
  readonly document: { readonly question: JsonObject; readonly protocol: JsonObject };
}

export interface Plan {
  readonly id: string;
  /** The plan as it was served, which has the digest `id`. */
  readonly document: JsonObject;
  readonly parts: readonly Part[];
  readonly rounds: number;
  /** How many reports everybody sends into one batch. */
  readonly contributions: number;
  /** How many items a report has at most, and how many of them every report has. */
  readonly slots: number;
  readonly fixedSlots: number;
  /** What the plan promises, which nobody has verified yet. */
  readonly epsilon: number;
  readonly delta: number;
  /** The hops in their order, then the analyzer; none where the plan names nobody. */
  readonly parties: readonly Party[];
}

/** Longer reports no service takes. */
const MOST_REPORT_BYTES = 1 << 20;
const MOST_UPLOAD_BYTES = 4 << 20;

/** The id that a document must have: the digest of its canonical form without `id`. */
export async function planId(document: JsonObject): Promise<string> {
  const { id: _, ...body } = document;
  return hex(await sha256(utf8(canonical(body))));
}

/** Read the plan with this id; refuse any other one. */
export async function readPlan(content: string, id: string): Promise<Plan> {
  let document: JsonObject;
  try {
    document = object(JSON.parse(content) as Json);
    if (document.id !== id || (await planId(document)) !== id) throw new RangeError("another id");
  } catch {
    throw new PlanNotTrusted(`This is not the plan ${id.slice(0, 16)} that the page pins.`);
  }
  return planOf(document, id);
}

async function planOf(document: JsonObject, id: string): Promise<Plan> {
  const needed = ["format", "id", "title", "crowd", "questions", "guarantee", "honest_shares", "messages"];
  fields(document, needed, ["public_group", "parties"]);
  if (document.format !== "chaffinch/plan@1") throw new UnsupportedPlan("the plan is of another version");
  const group = document.public_group;
  if (group !== undefined && object(group).value === undefined) {
    throw new UnsupportedPlan("the plan is for any of its groups: take the plan of one group");
  }
  const crowd = fields(document.crowd, ["users", "reports", "counted_on", "rounds"], ["contributions", "honest"]);
  const parts = await Promise.all(list(document.questions, 100, 1).map(partOf));
  const fixedSlots = sum(parts.map((part) => (part.encoder.varies ? 0 : part.encoder.slots)));
  const slots = sum(parts.map((part) => part.encoder.slots));
  const messages = fields(document.messages, ["slots", "codes"], ["varying"]);
  const varying = parts.filter((part) => part.encoder.varies).map((part) => part.name);
  const same =
    messages.slots === slots &&
    messages.codes === sum(parts.map((part) => part.encoder.codes)) &&
    canonical(messages.varying ?? []) === canonical(varying);
  const follow = parts.filter((part) => part.answersTo === undefined).flatMap(({ name, question }) => [
    name,
    ...(question.countsGaps ? [`bit of ${name}`] : []),
    ...(question.asksSpread ? [`number of ${name}`] : []),
  ]);
  const found = parts.map(({ name, answersTo, question }) => (answersTo === undefined ? name : `${question.shape} of ${answersTo}`));
  const fits = canonical(follow) === canonical(found);
  if (!same || !fits) throw new UnsupportedPlan("the plan contradicts itself");
  const promise = object(document.guarantee);
  const parties = document.parties === undefined ? [] : partiesOf(document.parties);
  const contributions = crowd.contributions === undefined ? 1 : whole(crowd.contributions, 2, 10_000);
  const hops = Math.max(parties.length - 1, 1);
  const length = 60 + 32 * hops + slots * (4 + 55 * hops);
  if (length > MOST_REPORT_BYTES || contributions * length > MOST_UPLOAD_BYTES) {
    throw new UnsupportedPlan("a report of the plan is longer than services take");
  }
  return {
    id,
    document,
    parts,
    rounds: whole(crowd.rounds, 1, 1_000_000),
    contributions,
    slots,
    fixedSlots,
    epsilon: real(promise.epsilon),
    delta: real(promise.delta),
    parties,
  };
}

async function partOf(document: Json): Promise<Part> {
  const said = fields(document, ["name", "question", "protocol"], ["answers_to"]);
  const question = questionOf(said.question);
  const protocol = object(said.protocol);
  const encoder = await encoderOf(protocol, question.shape, question.labels);
  const part = { name: text(said.name), question, encoder, document: { question: object(said.question), protocol } };
  if (said.answers_to === undefined) return part;
  if (question.countsGaps || question.asksSpread) throw new UnsupportedPlan("what follows from a number asks for more");
  return { ...part, answersTo: text(said.answers_to) };
}

function partiesOf(document: Json): Party[] {
  const said = fields(document, ["hops", "analyzer", "outer_kem"]);
  const parties = [...list(said.hops, 8, 1), said.analyzer].map((one) => {
    const party = fields(one, ["name", "identity", "address"]);
    const identity = text(party.identity);
    if (!/^[0-9a-f]{64}$/.test(identity)) throw new UnsupportedPlan("the identity of a party is none");
    return { name: text(party.name), identity };
  });
  if (new Set(parties.map((party) => party.identity)).size < parties.length) throw new UnsupportedPlan("one party is two");
  if (said.outer_kem !== "x25519") {
    throw new UnsupportedPlan("its reports are sealed with ML-KEM-768 as well, which this client does not have");
  }
  return parties;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

// ---------------------------------------------------------------------------
// From answers to codes.

/** The numbers of one person's answers, for each part of the plan. Draws nothing. */
export function prepare(plan: Plan, answer: Answer): Prepared[] {
  const given = answersOf(plan, answer);
  let asked = 0;
  let before: Prepared = 0;
  let silent = false;
  return plan.parts.map(({ question, answersTo }) => {
    if (answersTo === undefined) {
      before = question.prepare(given[asked++]);
      silent = Number.isNaN(before);
      // A counted gap is sent as the middle of the range.
      if (silent) before = 0.5;
      return before;
    }
    const fromMiddle = 2 * (before as number) - 1;
    return question.shape === "bit" ? Number(!silent) : fromMiddle * fromMiddle;
  });
}

/** The parts that people are asked. */
function askedOf(plan: Plan): Part[] {
  return plan.parts.filter((part) => part.answersTo === undefined);
}

/** The names under which answers are given. */
export function namesOf(plan: Plan): string[] {
  return askedOf(plan).flatMap((part) => part.question.asked ?? [part.name]);
}

function answersOf(plan: Plan, answer: Answer): readonly Answer[] {
  const parts = askedOf(plan);
  const names = namesOf(plan);
  const plain = typeof answer === "object" && answer !== null && !Array.isArray(answer);
  if (answer === undefined) throw new InvalidAnswer("A missing answer is null.");
  if (parts.length === 1 && !parts[0].question.asked && !(plain && Object.keys(answer).join() === parts[0].name)) return [answer];
  const given = named(answer, names);
  return parts.map((part) => {
    const asked = part.question.asked;
    return asked ? Object.fromEntries(asked.map((name) => [name, given[name]])) : given[part.name];
  });
}

/** Draw a report, once: its codes in ascending order, so that nothing shows which of them is noise. */
export function draw(plan: Plan, answers: readonly Prepared[], words: Words): number[] {
  const found: number[] = [];
  let first = 0;
  plan.parts.forEach(({ question, encoder }, at) => {
    const settled = question.settle ? question.settle(answers[at] as number, words) : answers[at];
    for (const code of encoder.draw(settled, words)) found.push(first + code);
    first += encoder.codes;
  });
  return found.sort((one, other) => one - other);
}

/** How many dummies a report has: every slot of a part that fills all of its slots is an item. */
export function dummies(plan: Plan, codes: readonly number[]): number {
  let left = plan.fixedSlots;
  let first = 0;
  for (const { encoder } of plan.parts) {
    const [from, to] = [first, (first += encoder.codes)];
    if (!encoder.varies) left -= codes.filter((code) => code >= from && code < to).length;
  }
  return left;
}
