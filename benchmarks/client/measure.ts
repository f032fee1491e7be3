/** What one answer costs in this browser: `measure()` returns milliseconds, the median of many turns. */

import { Task } from "@divviup/dap";

import { bigEndian, joined, unhex } from "../../clients/typescript/src/bytes.ts";
import { readKeyLists } from "../../clients/typescript/src/keys.ts";
import { draw, prepare, readPlan } from "../../clients/typescript/src/plan.ts";
import { itemsOf, payloadOf, wrap } from "../../clients/typescript/src/sealing.ts";
import { secureWords } from "../../clients/typescript/src/words.ts";
import { FirstHop } from "../../clients/typescript/test/first_hop.ts";

const TURNS = 31;

async function median(run: () => unknown): Promise<number> {
  const found: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const start = performance.now();
    await run();
    found.push(performance.now() - start);
  }
  return found.sort((one, other) => one - other)[TURNS >> 1];
}

/** The same kind of answer for both: one of four. */
async function ours(): Promise<Record<string, number>> {
  const hop = await FirstHop.running("flips of a choice");
  const text = JSON.stringify(hop.document);
  const plan = await readPlan(text, hop.id);
  const lists = await hop.lists();
  const keys = (await readKeyLists(lists, plan)).map((list) => list.keys[0]);
  const codes = () => draw(plan, prepare(plan, "tea"), secureWords);
  const seal = async (items: number[], slots: number) => wrap(plan, 1, keys[0], await payloadOf({ ...plan, slots }, 1, keys, items));
  return {
    "read the plan": await median(() => readPlan(text, hop.id)),
    "check the key lists": await median(() => readKeyLists(lists, plan)),
    "draw an answer": await median(codes),
    "seal 2 slots": await median(() => seal(itemsOf(plan, codes(), secureWords), plan.slots)),
    "seal 64 slots": await median(() => seal(Array<number>(64).fill(1), 64)),
  };
}

async function dap(): Promise<Record<string, number>> {
  const pair = (await crypto.subtle.generateKey({ name: "X25519" }, true, ["deriveBits"])) as CryptoKeyPair;
  const known = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const config = joined([bigEndian(1, 1), unhex("002000010001"), bigEndian(32, 2), known]);
  const list = joined([bigEndian(config.length, 2), config]);
  const task = new Task({
    type: "histogram",
    length: 4,
    chunkLength: 2,
    id: btoa("a task of thirty-two whole bytes").replaceAll("=", ""),
    leader: "https://leader.example",
    helper: "https://helper.example",
    timePrecisionSeconds: 1,
  });
  task.fetch = async () => new Response(list, { headers: { "content-type": "application/dap-hpke-config-list" } });
  await task.generateReport(1);
  return { "make a report": await median(() => task.generateReport(1)) };
}

Object.assign(globalThis, { measure: async () => ({ chaffinch: await ours(), dap: await dap() }) });
