/** Promises that just hold are proved, and no promise that just does not: Python's brackets say which. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { readPlan, planId, type Plan } from "../src/plan.ts";
import type { JsonObject } from "../src/canonical.ts";
import { UnsupportedPlan } from "../src/errors.ts";
import { verify, type Verdict } from "../src/verify/index.ts";
import verdicts from "../../../tests/vectors/verdicts.json" with { type: "json" };

type Case = (typeof verdicts.cases)[number];

/** A plan as it is served, with this delta; `change` is what somebody makes of it. */
async function planOf(one: Case, delta: string, change: (document: Record<string, any>) => void = () => undefined): Promise<Plan> {
  const { crowd, questions, messages, epsilon } = structuredClone(one);
  const guarantee = { epsilon, delta, neighbours: "replace-one", view: "messages", crowd: "", local_epsilon: "infinite", method: "exact" };
  const document = { format: "chaffinch/plan@1", title: "", crowd, questions, guarantee, honest_shares: [], messages } as unknown as JsonObject;
  change(document);
  const id = await planId(document);
  return readPlan(JSON.stringify({ ...document, id }), id);
}

async function verdictOf(one: Case, delta: string, change?: (document: Record<string, any>) => void): Promise<Verdict> {
  return verify(await planOf(one, delta, change), { epsilon: 700, delta: 0.99 });
}

for (const kind of new Set(verdicts.cases.map((one) => one.kind))) {
  test(`${kind}: proved where it just holds, refused where it just does not`, async () => {
    for (const one of verdicts.cases.filter((other) => other.kind === kind)) {
      const what = `${one.kind} ${one.epsilon} ${one.unproven} ${JSON.stringify(one.crowd)}`;
      assert.equal((await verdictOf(one, one.unproven)).proven, false, what);
      if (one.proven === null) continue;
      const verdict = await verdictOf(one, one.proven);
      assert.ok(verdict.proven, `${what}: ${"reason" in verdict ? verdict.reason : ""}`);
      assert.equal(verdict.guarantee.delta, Number(one.proven));
      assert.ok(verdict.guarantee.sentence.includes("proved"));
    }
  });
}

/** The first cases of their kinds in which nobody may lie. */
function caseOf(kind: string): Case {
  return verdicts.cases.find((one) => one.kind === kind && !("honest" in one.crowd)) as Case;
}

test("plans with a planted fault are refused, whatever the fault", async () => {
  const faults: Record<string, (document: Record<string, any>) => void> = {
    "nobody": (document) => (document.crowd.counted_on = 0),
    "more people than there are": (document) => (document.crowd.counted_on = document.crowd.users + 1),
    "no number of people": (document) => delete document.crowd.counted_on,
    "NaN": (document) => (document.guarantee.delta = "NaN"),
    "no delta": (document) => delete document.guarantee.delta,
    "a delta of 1": (document) => (document.guarantee.delta = "1"),
    "a forged delta": (document) => (document.guarantee.delta = String(document.guarantee.delta / 2)),
    "a forged epsilon": (document) => (document.guarantee.epsilon = String(document.guarantee.epsilon * 0.9)),
    "an epsilon below 0": (document) => (document.guarantee.epsilon = "-1"),
    "other neighbours": (document) => (document.guarantee.neighbours = "add-remove-one-id"),
    "another view": (document) => (document.guarantee.view = "one report"),
    "a thousand rounds": (document) => (document.crowd.rounds = 1000),
    "fewer people": (document) => (document.crowd.counted_on = Math.floor(document.crowd.counted_on * 0.8)),
    "several reports": (document) => Object.assign(document.crowd, { contributions: 2, reports: 3 * document.crowd.reports }),
    "people who may lie": (document) => (document.crowd.honest = { share: "0.9", reading: "independent" }),
  };
  for (const kind of ["flips", "choice", "decoys", "signed bit"]) {
    const one = caseOf(kind);
    assert.ok((await verdictOf(one, one.proven as string)).proven);
    for (const [fault, plant] of Object.entries(faults)) {
      const verdict = await verdictOf(one, one.proven as string, plant).catch((refused) => {
        assert.ok(refused instanceof UnsupportedPlan, `${kind}, ${fault}: ${refused}`);
        return { proven: false };
      });
      assert.equal(verdict.proven, false, `${kind}, ${fault}`);
    }
  }
});

test("one honest person fewer is one too few", async () => {
  // In so small a crowd one person makes more of a difference than a ten-thousandth.
  const small = verdicts.cases.filter((other) => other.kind === "flips" && other.crowd.counted_on < 3000);
  assert.ok(small.length > 1);
  for (const one of small) {
    const fewer = await verdictOf(one, one.proven as string, (document) => document.crowd.counted_on--);
    assert.equal(fewer.proven, false, JSON.stringify(one.crowd));
  }
});

test("a promise that is weaker than the page asks for is refused, true or not", async () => {
  const one = caseOf("flips");
  const plan = await planOf(one, one.proven as string);
  for (const within of [{ epsilon: plan.epsilon * 0.99, delta: 0.9 }, { epsilon: 100, delta: plan.delta * 0.99 }, { epsilon: NaN, delta: 0.9 }]) {
    assert.equal((await verify(plan, within)).proven, false);
  }
});

test("single reports are proved by their odds, and nothing else of them", async () => {
  const one = caseOf("flips");
  const [flip, copies] = [0.25, 3];
  const alone = (epsilon: number) =>
    verdictOf(one, "0", (document) => {
      Object.assign(document.questions[0].protocol, { flip_probability: String(flip), copies });
      Object.assign(document.messages, { slots: copies });
      Object.assign(document.guarantee, { epsilon: String(epsilon), view: "one report" });
      document.crowd.counted_on = 1;
    });
  assert.ok((await alone(copies * Math.log(3) * (1 + 1e-9))).proven);
  assert.equal((await alone(copies * Math.log(3) * (1 - 1e-9))).proven, false);
});

test("a plan that would keep a device busy is refused soon", async () => {
  const one = caseOf("flips");
  for (const users of [10_000_000_000, 1_000_000]) {
    const started = performance.now();
    const verdict = await verdictOf(one, "0.000001", (document) => {
      Object.assign(document.questions[0].protocol, { flip_probability: "0.4375", copies: 1 });
      Object.assign(document.messages, { slots: 1 });
      Object.assign(document.crowd, { users, reports: users, counted_on: users });
      document.guarantee.epsilon = "0.0001";
    });
    assert.equal(verdict.proven, false);
    assert.ok(performance.now() - started < 20_000);
  }
});
