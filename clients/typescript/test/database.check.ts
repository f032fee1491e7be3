/** The outbox in the database of a browser: real transactions of real tabs. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { hex } from "../src/bytes.ts";
import { NotSent } from "../src/errors.ts";
import { browserOutbox } from "../src/outbox.ts";
import { FirstHop } from "./first_hop.ts";

test("the database: two tabs at once draw one report, and a reload sends the same bytes", async () => {
  const hop = await FirstHop.running();
  hop.replies.push(() => undefined, () => undefined);
  const tab = async (answer: string) => (await (await hop.client({ patience: 0 }, { outbox: browserOutbox("two tabs") })).report(answer)).send();
  const [one, two] = await Promise.allSettled([tab("tea"), tab("water")]);
  assert.ok([one, two].every((end) => end.status === "rejected" && end.reason instanceof NotSent));
  await tab("coffee");
  assert.equal(hop.uploads.length, 3);
  assert.equal(new Set(hop.uploads.map(hex)).size, 1);
  await tab("tea");
  assert.equal(hop.uploads.length, 3);
});

test("the database: no change of a row is lost, and one that throws changes nothing", async () => {
  const add = () => browserOutbox("counted").update<{ count: number }>("row", (old) => ({ count: (old?.count ?? 0) + 1 }));
  await Promise.all(Array.from({ length: 50 }, add));
  const refuses = () => {
    throw new RangeError("no");
  };
  await assert.rejects(browserOutbox("counted").update("row", refuses), RangeError);
  assert.deepEqual(await add(), { count: 51 });
});

test("the database: who deletes it meanwhile starts anew, and nothing hangs", async () => {
  const outbox = browserOutbox("deleted");
  const add = () => outbox.update<{ count: number }>("row", (old) => ({ count: (old?.count ?? 0) + 1 }));
  assert.deepEqual([await add(), await add()], [{ count: 1 }, { count: 2 }]);
  await new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase("deleted");
    request.onsuccess = resolve;
    request.onerror = reject;
  });
  assert.deepEqual(await add(), { count: 1 });
});

test("the database: what it cannot take is not sent", async () => {
  const update = browserOutbox("full").update("row", () => ({ cannot: () => "be kept" }));
  await assert.rejects(update, (fault: Error) => fault.name === "NotSent" || fault.name === "DataCloneError");
});
