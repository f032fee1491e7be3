/** The outbox of a server: a folder. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { hex } from "../src/bytes.ts";
import { NotSent } from "../src/errors.ts";
import { fileOutbox } from "../src/node.ts";
import { FirstHop } from "./first_hop.ts";

test("a store that is full: nothing is drawn twice, because nothing is sent", async () => {
  const hop = await FirstHop.running();
  const folder = await mkdtemp(join(tmpdir(), "outbox-"));
  const blocked = join(folder, "file");
  await writeFile(blocked, "");
  const client = await hop.client({}, { outbox: fileOutbox(blocked) });
  await assert.rejects(client.report("tea"), NotSent);
  assert.equal(hop.uploads.length, 0);
  await rm(folder, { recursive: true });
});

test("a folder as outbox: many at once draw one report; it is private, and survives", async () => {
  const hop = await FirstHop.running();
  const folder = await mkdtemp(join(tmpdir(), "outbox-"));
  const people = Array.from({ length: 8 }, async (_, at) => {
    const client = await hop.client({}, { outbox: fileOutbox(join(folder, "own")) });
    await (await client.report(at % 2 ? "tea" : "water")).send();
  });
  await Promise.all(people);
  assert.equal(new Set(hop.uploads.map(hex)).size, 1);
  const before = hop.uploads.length;
  await (await (await hop.client({}, { outbox: fileOutbox(join(folder, "own")) })).report("tea")).send();
  assert.equal(hop.uploads.length, before);
  const names = await readdir(join(folder, "own"));
  assert.ok(names.every((name) => /^[0-9a-f]{64}\.[0-9]+$/.test(name)), "no draft is left");
  for (const name of ["", ...names]) assert.equal((await stat(join(folder, "own", name))).mode & 0o077, 0);
  await rm(folder, { recursive: true });
});

test("many change one row of a folder at once, and no change is lost", async () => {
  const folder = await mkdtemp(join(tmpdir(), "outbox-"));
  const add = () => fileOutbox(folder).update<{ count: number }>("row", (old) => ({ count: (old?.count ?? 0) + 1 }));
  await Promise.all(Array.from({ length: 60 }, add));
  assert.deepEqual(await add(), { count: 61 });
  await rm(folder, { recursive: true });
});
