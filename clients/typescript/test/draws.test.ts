/** Reports drawn from the same words as in Python: thousands of each protocol. */

import assert from "node:assert/strict";
import { test } from "node:test";

import codes from "../../../tests/vectors/codes.json" with { type: "json" };
import draws from "../../../tests/vectors/draws.json" with { type: "json" };
import { draw, prepare, readPlan } from "../src/plan.ts";
import { encoderOf, PROTOCOLS } from "../src/protocols.ts";
import { questionOf, type Answer } from "../src/questions.ts";
import { hex, sha256, utf8 } from "../src/bytes.ts";
import type { JsonObject } from "../src/canonical.ts";
import { Given, Seeded } from "./words.ts";

for (const one of draws.cases) {
  test(`the same reports as in Python: ${one.name}`, async () => {
    const plan = await readPlan(JSON.stringify(one.plan), one.plan.id);
    const words = new Seeded(one.seed);
    const lines: string[] = [];
    let [messages, longest] = [0, 0];
    for (let number = 0; number < one.reports; number++) {
      const answer = one.answers[number % one.answers.length] as Answer;
      const report = draw(plan, prepare(plan, answer), words);
      lines.push(`${report.join()}\n`);
      messages += report.length;
      longest = Math.max(longest, report.length);
    }
    const found = { words: words.taken, messages, longest, sha256: hex(await sha256(utf8(lines.join("")))) };
    assert.deepEqual(found, { words: one.words, messages: one.messages, longest: one.longest, sha256: one.sha256 });
    assert.ok(longest <= plan.slots);
  });
}

test("the tables of noise are those of Python, to the last of 128 bits", async () => {
  let tables = 0;
  for (const one of draws.cases) {
    const expected = [...one.tables] as { any: string; number: string; kinds: string }[];
    for (const part of one.plan.questions as unknown as JsonObject[]) {
      const question = questionOf(part.question);
      const table = (await encoderOf(part.protocol as JsonObject, question.shape, question.labels)).table?.();
      if (!table) continue;
      const any = (BigInt(table.any.high) << 32n) | BigInt(table.any.low);
      assert.deepEqual({ any: any.toString(16), number: await digestOf(table.numbers), kinds: await digestOf(table.kinds) }, expected.shift(), one.name);
      tables++;
    }
    assert.equal(expected.length, 0);
  }
  assert.ok(tables >= 8);
});

/** The weights of a table up to the last above 0, as in the vectors. */
async function digestOf(sums: readonly bigint[]): Promise<string> {
  const weights = sums.map((sum, at) => sum - (sums[at - 1] ?? 0n));
  while (weights.at(-1) === 0n) weights.pop();
  return hex(await sha256(utf8(weights.map((weight) => weight.toString(16)).join())));
}

test("the codes of every vector that shows its words", async () => {
  for (const one of codes.cases) {
    const [part] = one.questions as unknown as JsonObject[];
    if (one.questions.length > 1) continue;
    const question = questionOf(part.question);
    const encoder = await encoderOf(part.protocol as JsonObject, question.shape, question.labels);
    assert.equal(encoder.slots, one.messages.slots, one.name);
    for (const report of one.reports) {
      const words = new Given(report.words.map((word) => `0x${word}`));
      const prepared = question.prepare(report.answer as Answer);
      const settled = question.settle ? question.settle(prepared as number, words) : prepared;
      assert.deepEqual(encoder.draw(settled, words).sort((a, b) => a - b), report.codes, one.name);
      assert.equal(words.left, 0);
    }
  }
});

test("every protocol of this client has vectors, and every vector a protocol", () => {
  const kinds = draws.cases.flatMap((one) => one.plan.questions.map((part) => part.protocol.kind));
  assert.deepEqual([...new Set(kinds)].sort(), Object.keys(PROTOCOLS).sort());
});
