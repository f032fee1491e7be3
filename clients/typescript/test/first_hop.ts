/** A first hop in this process: it signs key lists, opens reports, and answers what a test tells it to. */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";

import draws from "../../../tests/vectors/draws.json" with { type: "json" };
import { bigEndian, equal, hex, joined, sha256, unhex, utf8, type Bytes } from "../src/bytes.ts";
import type { Json, JsonObject } from "../src/canonical.ts";
import { Client, type Options, type Parts } from "../src/client.ts";
import type { Outbox, Row } from "../src/outbox.ts";
import { planId } from "../src/plan.ts";

const SUITE = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
const ED25519 = { name: "Ed25519" };
export const WITHIN = { epsilon: 1, delta: 1e-6 };

/** An outbox in memory. What is kept is copied, as by a database. */
export function memoryOutbox(): Outbox & { readonly rows: Map<string, Row> } {
  const rows = new Map<string, Row>();
  return {
    rows,
    async update<Kept extends Row>(key: string, change: (old: Kept | undefined) => Kept): Promise<Kept> {
      const found = structuredClone(change(structuredClone(rows.get(key) as Kept | undefined)));
      rows.set(key, found);
      await Promise.resolve();
      return found;
    },
  };
}

interface Key {
  readonly id: number;
  readonly pair: CryptoKeyPair;
  readonly public: Bytes;
}

/** One of those who run a plan, with its keys; the first of them is in use. */
class Operator {
  serial = 1;
  keys: Key[] = [];
  /** All keys that there ever were. */
  readonly known: Key[] = [];
  readonly pair: CryptoKeyPair;
  readonly identity: string;

  private constructor(pair: CryptoKeyPair, identity: string) {
    this.pair = pair;
    this.identity = identity;
  }

  static async make(): Promise<Operator> {
    const pair = (await crypto.subtle.generateKey(ED25519, false, ["sign", "verify"])) as CryptoKeyPair;
    const made = new Operator(pair, hex(new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey))));
    await made.rotate();
    return made;
  }

  /** Take a new key into use, and keep no other one. */
  async rotate(): Promise<void> {
    const pair = await SUITE.kem.generateKeyPair();
    const id = (this.known.length * 7 + 3) % 256;
    this.keys = [{ id, pair, public: new Uint8Array(await SUITE.kem.serializePublicKey(pair.publicKey)) }];
    this.known.push(...this.keys);
    this.serial++;
  }

  async list(plan: string): Promise<Bytes> {
    const keys = this.keys.map((key) => bytesOf(key));
    const head = joined([utf8("chafkey1"), unhex(plan), bigEndian(this.serial, 8), bigEndian(keys.length, 1)]);
    const body = joined([head, ...keys]);
    const signature = await crypto.subtle.sign(ED25519, this.pair.privateKey, joined([utf8("chaffinch keys\0"), body]));
    return joined([body, new Uint8Array(signature)]);
  }
}

function bytesOf(key: Key): Bytes {
  return joined([bigEndian(key.id, 1), unhex("002000010001"), key.public]);
}

async function nameOf(key: Key): Promise<Bytes> {
  return joined([bigEndian(key.id, 1), (await sha256(bytesOf(key))).subarray(0, 31)]);
}

export interface Asked {
  readonly url: string;
  readonly init: RequestInit;
  readonly body?: Bytes;
}

/** The plan of a vector, run by these identities. */
async function planFor(name: string, identities: readonly string[], changed: JsonObject): Promise<JsonObject> {
  const { plan } = draws.cases.find((one) => one.name === name) as (typeof draws.cases)[number];
  const named = identities.map((identity, at) => ({ name: `party ${at}`, identity, address: "https://one.example" }));
  const parties = { hops: named.slice(0, -1), analyzer: named.at(-1) as JsonObject, outer_kem: "x25519" };
  const body = { ...(plan as unknown as JsonObject), parties, ...changed };
  return { ...body, id: await planId(body) };
}

export class FirstHop {
  readonly url = "https://one.example";
  readonly asked: Asked[] = [];
  /** What happens to the uploads to come; afterwards they are accepted. A reply of undefined is none. */
  readonly replies: ((upload: Bytes) => Response | undefined | Promise<Response | undefined>)[] = [];
  /** The same for key lists. */
  readonly listReplies: (() => Response)[] = [];
  readonly id: string;
  readonly document: JsonObject;
  readonly operators: readonly Operator[];

  private constructor(document: JsonObject, operators: readonly Operator[]) {
    this.document = document;
    this.id = document.id as string;
    this.operators = operators;
  }

  static async running(name = "flips of a choice", { hops = 1, changed = {} }: { hops?: number; changed?: JsonObject } = {}): Promise<FirstHop> {
    const operators = await Promise.all(Array.from({ length: hops + 1 }, () => Operator.make()));
    const document = await planFor(name, operators.map((one) => one.identity), changed);
    return new FirstHop(document, operators);
  }

  get uploads(): Bytes[] {
    return this.asked.flatMap((one) => (one.body ? [one.body] : []));
  }

  readonly fetch: typeof fetch = async (input, init = {}) => {
    init.signal?.throwIfAborted();
    const url = String(input);
    const base = `${this.url}/v1/plans/${this.id}`;
    const body = init.body as Bytes | undefined;
    this.asked.push({ url, init, ...(body ? { body: body.slice() } : {}) });
    if (url === base) return Response.json(this.document);
    if (url === `${base}/key-lists`) return this.listReplies.shift()?.() ?? new Response(await this.lists());
    const reply = this.replies.shift();
    const made = reply ? await reply(body as Bytes) : new Response(null, { status: 201 });
    if (!made) throw new TypeError("Failed to fetch");
    return made;
  };

  async lists(): Promise<Bytes> {
    return joined(await Promise.all(this.operators.map((one) => one.list(this.id))));
  }

  /** A client of this hop, which takes the guarantee for proved. */
  client(parts: Partial<Parts> = {}, options: Partial<Options> = {}): Promise<Client> {
    const usual: Parts = { verify: () => ({ proven: true, guarantee: { ...WITHIN, sentence: "proved" } }), fetch: this.fetch, firstPause: 2, patience: 2000 };
    return Client.of({ url: this.url, plan: this.id, within: WITHIN, outbox: memoryOutbox(), ...options }, { ...usual, ...parts });
  }

  /** The codes of the items of a report, as its parties open it one after the other. */
  async open(report: Bytes, round = 1): Promise<number[]> {
    const parties = this.operators.length;
    const payload = await this.openLayer(0, "hop1", report, new Uint8Array(0), round);
    const route = payload.slice(1, 1 + 32 * (parties - 1));
    const start = 1 + route.length + 4;
    const count = new DataView(payload.buffer).getUint32(start - 4);
    const length = 4 + 55 * (parties - 1);
    const codes: number[] = [];
    for (let place = 0; place < count; place++) {
      let item = payload.slice(start + place * length, start + (place + 1) * length);
      for (let at = 1; at < parties; at++) {
        const layer = at === parties - 1 ? "analyzer" : `hop${at + 1}`;
        item = await this.openLayer(at, layer, item, route.slice(32 * at), round);
      }
      codes.push(new DataView(item.buffer).getUint32(0));
    }
    if (payload.slice(start + count * length).some((byte) => byte)) throw new RangeError("padding that is not zero");
    return codes;
  }

  private async openLayer(at: number, layer: string, envelope: Bytes, behind: Bytes, round: number): Promise<Bytes> {
    const head = envelope.slice(0, 7);
    const key = this.operators[at].known.find((one) => equal(bytesOf(one).subarray(0, 7), head)) as Key;
    const label = utf8(`application/vnd.chaffinch;layer=${layer};plan=${this.id};round=${round} request\0`);
    const context = await SUITE.createRecipientContext({
      recipientKey: key.pair.privateKey,
      enc: envelope.slice(7, 39).buffer,
      info: joined([label, head, behind]).buffer,
    });
    return new Uint8Array(await context.open(envelope.slice(39).buffer));
  }

  async route(): Promise<Bytes> {
    return joined(await Promise.all(this.operators.slice(1).map((one) => nameOf(one.keys[0]))));
  }
}

export function problem(word: string, status: number, headers: Record<string, string> = {}): Response {
  const body: Json = { type: `urn:chaffinch:error:${word}`, title: "…", status };
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/problem+json", ...headers } });
}
