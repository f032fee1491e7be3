/** One person, one report: whatever the network, the keys and other tabs do meanwhile. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { hex } from "../src/bytes.ts";
import { GuaranteeNotProven, InsecureContext, InvalidAnswer, NotSent, PlanNotTrusted, Refused, UnsupportedPlan } from "../src/errors.ts";
import type { Outbox } from "../src/outbox.ts";
import { draw, prepare } from "../src/plan.ts";
import { questionOf } from "../src/questions.ts";
import { FirstHop, memoryOutbox, problem } from "./first_hop.ts";
import { Seeded } from "./words.ts";

const DUMMY = 0xffff_ffff;

test("a report opens, has all of its items, and holds what was drawn", async () => {
  for (const hops of [1, 2, 3]) {
    const hop = await FirstHop.running("flips of a choice", { hops });
    const client = await hop.client();
    const report = await client.report("tea");
    assert.equal(report.earlier, false);
    await report.send();
    const [upload] = hop.uploads;
    assert.equal(upload.length, 55 + 1 + 32 * hops + 4 + client.plan.slots * (4 + 55 * hops));
    const codes = await hop.open(upload);
    assert.equal(codes.length, client.plan.slots);
    assert.ok(codes.every((code) => code === DUMMY || code < 4));
    await assert.rejects(hop.open(upload, 2), "it is bound to its round");
  }
});

test("a question whose number of messages varies has no dummies, and one length", async () => {
  const hop = await FirstHop.running("decoys");
  const lengths = new Set<number>();
  const counts = new Set<number>();
  for (let person = 0; person < 20; person++) {
    const client = await hop.client();
    await (await client.report({ a: "yes", b: null })).send();
    const upload = hop.uploads.at(-1) as (typeof hop.uploads)[number];
    const codes = await hop.open(upload);
    assert.ok(codes.includes(1) && codes.includes(5) && !codes.includes(DUMMY));
    lengths.add(upload.length);
    counts.add(codes.length);
  }
  assert.equal(lengths.size, 1);
  assert.ok(counts.size > 1);
});

test("what is not proved is not sent", async () => {
  const hop = await FirstHop.running();
  const refused = hop.client({ verify: () => ({ proven: false, reason: "it is not" }) });
  await assert.rejects(refused, (fault: Error) => fault instanceof GuaranteeNotProven && /it is not/.test(fault.message));
  assert.equal(hop.asked.length, 1);
  const { createClient } = await import("../src/index.ts");
  assert.equal(createClient.length, 1, "nobody gives another verifier from outside");
});

test("another plan is not trusted, and one with more in it is not understood", async () => {
  const hop = await FirstHop.running();
  await assert.rejects(hop.client({}, { plan: "0".repeat(64) }), NotSent);
  await assert.rejects(hop.client({}, { plan: hop.id.toUpperCase() }), PlanNotTrusted);
  const served = (document: unknown) => hop.client({ fetch: async () => Response.json(document) });
  await assert.rejects(served({ ...hop.document, title: "another" }), PlanNotTrusted);
  await assert.rejects(served({ ...hop.document, more: 1 }), PlanNotTrusted);
  await assert.rejects(served([]), PlanNotTrusted);
  const parties = hop.document.parties as object;
  const group = { name: "g", question: { kind: "bit", missing: "refuse" } };
  for (const changed of [
    { more: 1 },
    { format: "chaffinch/plan@2" },
    { public_group: group },
    { parties: { ...parties, outer_kem: "x25519-ml-kem-768" } },
    { messages: { slots: 3, codes: 4 } },
    { messages: { slots: 2, codes: 4, varying: ["a"] } },
  ]) {
    const other = await FirstHop.running("flips of a choice", { changed: changed as never });
    await assert.rejects(other.client(), UnsupportedPlan, JSON.stringify(changed));
  }
});

test("a plan of another protocol, or with a chance that cannot be drawn exactly, is refused", async () => {
  const [question] = (await FirstHop.running()).document.questions as unknown as { protocol: object }[];
  for (const protocol of [
    { kind: "totals" },
    { kind: "toString" },
    { ...question.protocol, flip_probability: "0.1" },
    { ...question.protocol, flip_probability: "0.5" },
    { ...question.protocol, flip_probability: "0" },
    { ...question.protocol, flip_probability: 1 },
    { ...question.protocol, copies: 2 },
    { ...question.protocol, more: 1 },
  ]) {
    const changed = { questions: [{ ...question, protocol }] } as never;
    const hop = await FirstHop.running("flips of a choice", { changed });
    await assert.rejects(hop.client(), UnsupportedPlan, JSON.stringify(protocol));
  }
});

test("an address that anybody on the way can answer for is refused", async () => {
  const hop = await FirstHop.running();
  for (const url of ["http://one.example", "ftp://one.example", "one.example", "http://localhost.example", "http://127.0.0.1.example"]) {
    await assert.rejects(hop.client({}, { url }), InsecureContext, url);
  }
  assert.equal(hop.asked.length, 0);
});

test("requests say nothing about the person", async () => {
  const hop = await FirstHop.running();
  await (await (await hop.client()).report("tea")).send();
  assert.equal(hop.asked.length, 3);
  for (const { init } of hop.asked) {
    const { credentials, referrerPolicy, cache, redirect } = init;
    assert.deepEqual({ credentials, referrerPolicy, cache, redirect }, { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" });
  }
});

test("no answer is repeated in an error, and none that is wrong draws anything", async () => {
  const hop = await FirstHop.running();
  const outbox = memoryOutbox();
  const client = await hop.client({}, { outbox });
  for (const wrong of ["a secret", 17, true, undefined, { answer: "tea", other: 1 }, ["tea"]]) {
    const refused = (fault: Error) => fault instanceof InvalidAnswer && !/secret|17|other/.test(fault.message);
    await assert.rejects(client.report(wrong as never), refused);
  }
  await assert.rejects(client.report("tea", { round: 2 }), InvalidAnswer);
  assert.equal(outbox.rows.size, 0);
});

test("a second answer of the same round is the first one", async () => {
  const hop = await FirstHop.running();
  const outbox = memoryOutbox();
  hop.replies.push(() => undefined);
  const first = await hop.client({ patience: 0 }, { outbox });
  await assert.rejects((await first.report("tea")).send(), NotSent);
  const reloaded = await hop.client({}, { outbox });
  const again = await reloaded.report("water");
  assert.equal(again.earlier, true);
  await again.send();
  await again.send();
  const [one, two, ...more] = hop.uploads.map(hex);
  assert.equal(one, two);
  assert.equal(more.length, 0);
});

test("rounds have a report each", async () => {
  const hop = await FirstHop.running("flips of a choice", { changed: { crowd: { users: 10, reports: 10, counted_on: 10, rounds: 3 } } });
  const client = await hop.client();
  await assert.rejects(client.report("tea"), InvalidAnswer);
  for (const round of [1, 3]) {
    await (await client.report("tea", { round })).send();
    await hop.open(hop.uploads.at(-1) as never, round);
    assert.ok(hop.asked.at(-1)?.url.endsWith(`/rounds/${round}/reports`));
  }
  await assert.rejects(client.report("tea", { round: 4 }), InvalidAnswer);
});

test("whoever sends several reports into one batch sends them in one upload", async () => {
  const crowd = { users: 10, reports: 30, counted_on: 10, rounds: 1, contributions: 3 };
  const hop = await FirstHop.running("flips of a choice", { changed: { crowd } });
  const client = await hop.client();
  await (await client.report(["tea", "water"])).send();
  const length = hop.uploads[0].length / 3;
  for (let at = 0; at < 3; at++) await hop.open(hop.uploads[0].slice(at * length, (at + 1) * length));
  await assert.rejects(client.report("tea"), InvalidAnswer);
  await assert.rejects(client.report(["tea", "tea", "tea", "tea"]), InvalidAnswer);
});

test("a lost reply, a gateway and a busy service: the same bytes until they are taken", async () => {
  const hop = await FirstHop.running();
  hop.replies.push(
    () => undefined,
    () => new Response("bad gateway", { status: 502 }),
    () => problem("overloaded", 503),
    () => problem("slowBody", 408),
  );
  await (await (await hop.client()).report("tea")).send();
  assert.equal(hop.uploads.length, 5);
  assert.equal(new Set(hop.uploads.map(hex)).size, 1);
});

test("a service that says for how long is asked no earlier", async () => {
  const hop = await FirstHop.running();
  hop.replies.push(() => problem("overloaded", 503, { "retry-after": "1" }));
  const start = performance.now();
  await (await (await hop.client()).report("tea")).send();
  assert.ok(performance.now() - start >= 1000);
});

test("a report that is refused is not sent again by itself", async () => {
  for (const [word, status] of [["invalidMessage", 400], ["tooLarge", 413], ["failed", 500]] as const) {
    const hop = await FirstHop.running();
    hop.replies.push(() => problem(word, status));
    await assert.rejects((await (await hop.client()).report("tea")).send(), Refused);
    assert.equal(hop.uploads.length, 1);
  }
});

test("a key that is still on the list is not outdated, whoever says so", async () => {
  const hop = await FirstHop.running();
  hop.replies.push(() => problem("outdatedKeys", 422));
  await (await (await hop.client()).report("tea")).send();
  assert.equal(new Set(hop.uploads.map(hex)).size, 1);
});

test("for a new key of the first hop: another envelope, and the same items", async () => {
  const hop = await FirstHop.running("flips of a choice", { hops: 2 });
  hop.replies.push(async () => {
    await hop.operators[0].rotate();
    return problem("outdatedKeys", 422);
  });
  await (await (await hop.client()).report("tea")).send();
  const [one, two] = hop.uploads;
  assert.notEqual(hex(one), hex(two));
  assert.deepEqual(await hop.open(one), await hop.open(two));
});

test("what may have arrived is never put into another envelope", async () => {
  const hop = await FirstHop.running();
  const outbox = memoryOutbox();
  hop.replies.push(() => undefined, async () => {
    await hop.operators[0].rotate();
    return problem("outdatedKeys", 422);
  });
  const client = await hop.client({}, { outbox });
  const report = await client.report("tea");
  await assert.rejects(report.send(), Refused);
  await assert.rejects((await client.report("tea")).send(), Refused);
  assert.equal(new Set(hop.uploads.map(hex)).size, 1);
  assert.deepEqual([...outbox.rows.values()].filter((row) => "state" in row).map((row) => row.state), ["given up"]);
});

test("what somebody has seen is given up when its parties have other keys", async () => {
  const hop = await FirstHop.running();
  hop.replies.push(async () => {
    await hop.operators[1].rotate();
    return problem("overloaded", 503);
  });
  await assert.rejects((await (await hop.client()).report("tea")).send(), Refused);
  assert.equal(hop.uploads.length, 1);
});

test("what nobody has seen is sealed anew for other keys", async () => {
  const hop = await FirstHop.running();
  const outbox = memoryOutbox();
  let crashes = true;
  const update: Outbox["update"] = async (key, change) => {
    const found = await outbox.update(key, change);
    // The power goes when the report is sealed, and before it is noted to be on its way.
    if (crashes && "sealed" in found) throw new Error("no power");
    return found;
  };
  await assert.rejects((await (await hop.client({}, { outbox: { update } })).report("tea")).send(), /no power/);
  crashes = false;
  await hop.operators[1].rotate();
  await (await (await hop.client({}, { outbox })).report("tea")).send();
  assert.equal(hop.uploads.length, 1);
  await hop.open(hop.uploads[0]);
});

test("after a crash while it is sent, the same bytes", async () => {
  const hop = await FirstHop.running();
  const outbox = memoryOutbox();
  hop.replies.push(() => new Promise(() => {}));
  const stopped = new AbortController();
  void (await (await hop.client({}, { outbox })).report("tea")).send({ signal: stopped.signal }).catch(() => {});
  while (!hop.uploads.length) await new Promise((resolve) => setTimeout(resolve, 5));
  await (await (await hop.client({}, { outbox })).report("tea")).send();
  assert.equal(new Set(hop.uploads.map(hex)).size, 1);
  const kept = [...outbox.rows.values()].find((row) => row.state);
  assert.deepEqual(kept, { state: "arrived", open: 0, seen: true }, "nothing of an answer is left");
});

test("codes are forgotten as soon as anything leaves", async () => {
  const hop = await FirstHop.running();
  const outbox = memoryOutbox();
  hop.replies.push(() => undefined);
  await assert.rejects((await (await hop.client({ patience: 0 }, { outbox })).report("tea")).send(), NotSent);
  assert.ok([...outbox.rows.values()].every((row) => !("codes" in row)));
});

test("a key of which everybody would know the secret seals nothing", async () => {
  const hop = await FirstHop.running();
  const [key] = hop.operators[1].keys;
  hop.operators[1].keys = [{ ...key, public: new Uint8Array(32) }];
  const client = await hop.client();
  await assert.rejects((await client.report("tea")).send(), NotSent);
  assert.equal(hop.uploads.length, 0);
  hop.operators[1].keys = [key];
  hop.operators[1].serial++;
  await (await client.report("tea")).send();
  assert.equal(hop.uploads.length, 1);
});

test("a bit that counts answers stands behind the number that it is about", async () => {
  const { questions, messages } = (await FirstHop.running("encoded, and who answered")).document as never as { questions: object[]; messages: object };
  const refuses = async (changed: object[], slots: number, codes: number) => {
    const hop = await FirstHop.running("encoded, and who answered", { changed: { questions: changed, messages: { ...messages, slots, codes } } as never });
    await assert.rejects(hop.client(), UnsupportedPlan);
  };
  const [number, bit] = questions;
  await refuses([bit, number], 5, 2);
  await refuses([number], 4, 1);
  await refuses([number, { ...bit, answers_to: "other" }], 5, 2);
  await refuses([number, bit, bit], 6, 3);
  const client = await (await FirstHop.running("encoded, and who answered")).client();
  assert.equal(client.plan.parts.length, 2);
});

test("squares stand behind the number that asks for them, and nowhere else", async () => {
  const name = "a number with who answered and its squares";
  const { document } = await FirstHop.running(name);
  const [number, bit, squares] = document.questions as unknown as { question: object; protocol: object }[];
  const refuses = async (questions: object[]) => {
    await assert.rejects((await FirstHop.running(name, { changed: { questions } as never })).client(), UnsupportedPlan);
  };
  const { spread: _, ...without } = number.question as { spread: boolean };
  await refuses([number, squares, bit]);
  await refuses([{ ...number, question: without }, bit, squares]);
  await refuses([number, bit, { ...squares, question: number.question }]);
  await (await FirstHop.running(name)).client();
});

test("two keys of one id seal nothing", async () => {
  const hop = await FirstHop.running();
  const [first] = hop.operators;
  await first.rotate();
  const [one, two] = first.known;
  first.keys = [two, { ...one, id: two.id }];
  await assert.rejects((await (await hop.client()).report("tea")).send(), NotSent);
  assert.equal(hop.uploads.length, 0);
  first.keys = [two, one];
  await (await (await hop.client()).report("tea")).send();
});

test("keys that are not there yet are waited for, and a first hop without the plan is not", async () => {
  const hop = await FirstHop.running();
  hop.listReplies.push(() => problem("unseenKeys", 503), () => new Response(null, { status: 502 }));
  await (await (await hop.client()).report("tea")).send();
  assert.equal(hop.uploads.length, 1);
  hop.listReplies.push(() => problem("unrecognizedPlan", 404));
  const before = hop.asked.length;
  await assert.rejects((await (await hop.client()).report("tea")).send(), NotSent);
  assert.equal(hop.asked.length, before + 2);
});

test("a reply that is too long is none", async () => {
  const hop = await FirstHop.running();
  hop.replies.push(() => new Response("x".repeat(1 << 17), { status: 400 }));
  await (await (await hop.client()).report("tea")).send();
  assert.equal(hop.uploads.length, 2);
});

test("a report that is longer than services take is not made", async () => {
  const [question] = (await FirstHop.running("flips of a bit")).document.questions as unknown as { protocol: object }[];
  const running = (copies: number) => {
    const questions = [{ ...question, protocol: { ...question.protocol, copies } }];
    return FirstHop.running("flips of a bit", { hops: 2, changed: { questions, messages: { slots: copies, codes: 1 } } as never });
  };
  await assert.rejects((await running(10_000)).client(), UnsupportedPlan);
  await (await running(9000)).client();
});

test("answers at and beyond the bounds, unlisted ones, and blanks", () => {
  const number = { kind: "number", missing: "refuse", low: "0", high: "60", unit: "", clip: false, quantiles: false };
  const { prepare } = questionOf(number);
  assert.deepEqual([0, 15, 60].map(prepare), [0, 0.25, 1]);
  for (const wrong of [-0.001, 60.001, Infinity, NaN, "15", true, null]) assert.throws(() => prepare(wrong), InvalidAnswer);
  const clipped = questionOf({ ...number, clip: true, missing: "30" });
  assert.deepEqual([-5, Infinity, null].map(clipped.prepare), [0, 1, 0.5]);
  const choice = { kind: "choice", missing: "refuse", values: ["tea", "7", "rest"], unknown: "rest" };
  const open = questionOf(choice);
  assert.deepEqual(["tea", " tea ", 7, "7", "other", 8].map(open.prepare), [0, 0, 1, 1, 2, 2]);
  for (const wrong of ["", "  ", null, 7.5, true, ["tea"]]) assert.throws(() => open.prepare(wrong as never), InvalidAnswer);
  assert.throws(() => questionOf({ ...choice, unknown: null }).prepare("other"), InvalidAnswer);
  const flags = questionOf({ kind: "flags", missing: "none", names: ["x", "y"] });
  assert.deepEqual([["y", "x"], [], null, { y: true, x: false }].map((one) => flags.prepare(one as never)), [[0, 1], [], [], [1]]);
  for (const wrong of [["z"], "x", { z: true }, { x: "yes" }, 1]) assert.throws(() => flags.prepare(wrong as never), InvalidAnswer);
  const bit = questionOf({ kind: "bit", missing: "yes" });
  assert.deepEqual([true, "yes", false, "no", null].map(bit.prepare), [1, 1, 0, 0, 1]);
  for (const wrong of ["maybe", 1, 0, "", "true"]) assert.throws(() => bit.prepare(wrong), InvalidAnswer);
});

test("key lists that are older than one that was seen, or others of the same number, seal nothing", async () => {
  for (const change of ["older", "other"]) {
    const hop = await FirstHop.running();
    const outbox = memoryOutbox();
    hop.replies.push(() => undefined);
    const client = await hop.client({ patience: 0 }, { outbox });
    await assert.rejects((await client.report("tea")).send(), NotSent);
    const serial = hop.operators[1].serial;
    await hop.operators[1].rotate();
    hop.operators[1].serial = change === "older" ? serial - 1 : serial;
    await assert.rejects((await client.report("tea")).send(), NotSent);
    assert.equal(hop.uploads.length, 1);
  }
});

test("two tabs at once draw one report, and send the same bytes", async () => {
  for (let turn = 0; turn < 5; turn++) {
    const hop = await FirstHop.running();
    const outbox = memoryOutbox();
    hop.replies.push(() => undefined, () => problem("overloaded", 503));
    const tab = async (answer: string) => (await (await hop.client({}, { outbox })).report(answer)).send();
    await Promise.all(["tea", "water", "coffee"].map(tab));
    assert.equal(new Set(hop.uploads.map(hex)).size, 1);
  }
});

test("sending can be stopped, and goes on later", async () => {
  const hop = await FirstHop.running();
  const stopped = new AbortController();
  hop.replies.push(() => {
    stopped.abort();
    return undefined;
  });
  const client = await hop.client();
  const report = await client.report("tea");
  await assert.rejects(report.send({ signal: stopped.signal }), NotSent);
  await report.send();
  assert.equal(new Set(hop.uploads.map(hex)).size, 1);
});

test("as many words are drawn whatever the answer is", async () => {
  for (const [name, answers] of [
    ["flips of a choice", ["tea", "water", null]],
    ["flips of flags", [["x", "z"], [], null]],
    ["flipped decoys", ["water", null]],
    ["encoded, all steps", [{ a: "no", b: 0 }, { a: "yes", b: 33.3 }]],
    ["weighted, in one code", [{ a: "yes", b: 0.3 }, { a: "no", b: 1 }]],
    ["signed decoys of a choice", ["tea", "water", null]],
  ] as const) {
    const { plan } = await (await FirstHop.running(name)).client();
    for (let seed = 1; seed < 100; seed++) {
      const taken = answers.map((answer) => {
        const words = new Seeded(seed);
        draw(plan, prepare(plan, answer as never), words);
        return words.taken;
      });
      assert.equal(new Set(taken).size, 1, `${name}: ${taken}`);
    }
  }
});
