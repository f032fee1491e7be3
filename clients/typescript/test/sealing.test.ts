/** Envelopes, reports and key lists: the bytes of the vectors, and of two other libraries. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import * as other from "hpke";

import rfc from "../../../tests/vectors/rfc9180.json" with { type: "json" };
import wire from "../../../tests/vectors/wire.json" with { type: "json" };
import { bigEndian, hex, joined, unhex, utf8, type Bytes } from "../src/bytes.ts";
import { HpkeSealer, type Ephemeral } from "../src/hpke.ts";
import { NotTheKeys, readKeyLists, type SealingKey } from "../src/keys.ts";
import { payloadOf, routeOf, wrap } from "../src/sealing.ts";

/** A pair whose private key is known, as PKCS #8 writes it. */
async function pairOf(secret: string): Promise<Ephemeral> {
  const pkcs8 = joined([unhex("302e020100300506032b656e04220420"), unhex(secret)]);
  const key = await crypto.subtle.importKey("pkcs8", pkcs8, { name: "X25519" }, true, ["deriveBits"]);
  const { x } = await crypto.subtle.exportKey("jwk", key);
  return { privateKey: key, public: Uint8Array.from(atob((x as string).replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0)) };
}

function given(secrets: readonly string[]): () => Promise<Ephemeral> {
  const left = [...secrets];
  return () => pairOf(left.shift() as string);
}

test("RFC 9180, A.1.1: the keys that a context has", async () => {
  const sealer = await HpkeSealer.of(unhex(rfc.public), unhex(rfc.info), given([rfc.ephemeral_private]));
  const { enc, shared, key, nonce } = await sealer.context();
  const found = { enc: hex(enc), shared_secret: hex(shared), key: hex(key), base_nonce: hex(nonce) };
  const { shared_secret, base_nonce } = rfc;
  assert.deepEqual(found, { enc: rfc.enc, shared_secret, key: rfc.key, base_nonce });
});

const INFO = utf8("application/vnd.chaffinch;layer=hop1;…");

test("@hpke/core opens what is sealed here, and nothing that was changed", async () => {
  const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
  const pair = await suite.kem.generateKeyPair();
  const known = new Uint8Array(await suite.kem.serializePublicKey(pair.publicKey));
  for (const length of [0, 4, 59, 4000]) {
    const content = crypto.getRandomValues(new Uint8Array(length));
    const sealed = await (await HpkeSealer.of(known, INFO)).seal(content);
    assert.equal(sealed.length, 32 + length + 16);
    const open = async (bytes: Bytes, info: Bytes) => {
      const recipient = await suite.createRecipientContext({ recipientKey: pair.privateKey, enc: bytes.slice(0, 32).buffer, info: info.buffer });
      return new Uint8Array(await recipient.open(bytes.slice(32).buffer));
    };
    assert.deepEqual(await open(sealed, INFO), content);
    await assert.rejects(open(sealed, utf8("another info")));
    const broken = sealed.slice();
    broken[40 % broken.length] ^= 1;
    await assert.rejects(open(broken, INFO));
  }
});

test("hpke opens what is sealed here", async () => {
  const suite = new other.CipherSuite(other.KEM_DHKEM_X25519_HKDF_SHA256, other.KDF_HKDF_SHA256, other.AEAD_AES_128_GCM);
  const pair = await suite.GenerateKeyPair();
  const known = await suite.SerializePublicKey(pair.publicKey);
  const sealed = await (await HpkeSealer.of(new Uint8Array(known), INFO)).seal(utf8("a message"));
  const opened = await suite.Open(pair, sealed.subarray(0, 32), sealed.subarray(32), { info: INFO });
  assert.deepEqual(new Uint8Array(opened), utf8("a message"));
});

test("two envelopes of one content are different", async () => {
  const { public: known } = await pairOf(wire.parties.hop1.private);
  const sealer = await HpkeSealer.of(known, INFO);
  const [one, two] = [await sealer.seal(utf8("same")), await sealer.seal(utf8("same"))];
  assert.notDeepEqual(one, two);
});

test("a key of which everybody would know the secret is refused", async () => {
  const sealer = HpkeSealer.of(new Uint8Array(32), INFO).then((one) => one.seal(utf8("content")));
  await assert.rejects(sealer);
});

async function keyOf(party: keyof typeof wire.parties): Promise<SealingKey> {
  const { key_id, key_name, public: known } = wire.parties[party];
  const head = joined([bigEndian(key_id, 1), unhex("002000010001")]);
  return { id: key_id, public: unhex(known), head, name: unhex(key_name) };
}

for (const report of wire.reports) {
  test(`a report of the vectors, byte for byte: ${report.name}`, async () => {
    const plan = { id: wire.plan, slots: report.slots };
    const keys = await Promise.all(report.parties.map((party) => keyOf(party as keyof typeof wire.parties)));
    const fresh = given(report.ephemeral);
    const payload = await payloadOf(plan, wire.round, keys, report.codes, fresh);
    assert.equal(hex(payload), report.payload);
    assert.equal(hex(await wrap(plan, wire.round, keys[0], payload, fresh)), report.sealed);
  });
}

test("what Python and this client seal opens by one rule, and none of six kinds of damage does", async () => {
  const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
  const [report] = wire.reports;
  const recipientKey = (await pairOf(wire.parties.hop1.private)).privateKey;
  const bound = { layer: "hop1", plan: wire.plan, round: wire.round };
  const open = async (envelope: Bytes, { layer, plan, round } = bound) => {
    const head = envelope.slice(0, 7);
    const label = utf8(`application/vnd.chaffinch;layer=${layer};plan=${plan};round=${round} request\0`);
    const enc = envelope.slice(7, 39).buffer;
    const context = await suite.createRecipientContext({ recipientKey, enc, info: joined([label, head]).buffer });
    return hex(new Uint8Array(await context.open(envelope.slice(39).buffer)));
  };
  const own = await wrap({ id: wire.plan, slots: report.slots }, wire.round, await keyOf("hop1"), unhex(report.payload));
  for (const envelope of [unhex(report.sealed), own]) {
    assert.equal(await open(envelope), report.payload);
    const changed = (at: number) => envelope.map((byte, place) => (place === at ? byte ^ 1 : byte)) as Bytes;
    const broken = [
      open(changed(0)), // another key
      open(changed(6)), // another suite
      open(changed(20)), // another encapsulated key
      open(changed(envelope.length - 1)), // another tag
      open(envelope.slice(0, -1)), // cut off
      open(envelope, { ...bound, round: wire.round + 1 }), // another round
      open(envelope, { ...bound, plan: "0".repeat(64) }),
      open(envelope, { ...bound, layer: "analyzer" }),
    ];
    await Promise.all(broken.map((one) => assert.rejects(one)));
  }
});

const PARTIES = wire.key_lists.map((one) => {
  const { identity } = wire.parties[one.party as keyof typeof wire.parties];
  return { name: one.party, identity };
});
const LISTS = joined(wire.key_lists.map((one) => unhex(one.content)));
const KNOWN = { id: wire.plan, parties: PARTIES };

test("the key lists of the vectors", async () => {
  const found = await readKeyLists(LISTS, KNOWN);
  assert.deepEqual(found.map((one) => Number(one.serial)), wire.key_lists.map((one) => one.serial));
  const expected = await Promise.all(PARTIES.map(({ name }) => keyOf(name as keyof typeof wire.parties)));
  assert.equal(hex(routeOf(found.map((one) => one.keys[0]))), hex(routeOf(expected)));
});

test("key lists of which any bit is changed, cut off or moved are refused whole", async () => {
  const refuses = (bytes: Uint8Array, plan = KNOWN) => assert.rejects(readKeyLists(bytes as Bytes, plan), NotTheKeys);
  for (let at = 0; at < LISTS.length; at++) {
    const changed = LISTS.slice();
    changed[at] ^= 1 << at % 8;
    await refuses(changed);
  }
  for (const length of [0, 1, 48, 49, 112, 113, LISTS.length - 1]) await refuses(LISTS.slice(0, length));
  await refuses(joined([LISTS, new Uint8Array(1)]));
  await refuses(LISTS, { id: "0".repeat(64), parties: PARTIES });
  await refuses(LISTS, { id: wire.plan, parties: [...PARTIES].reverse() });
});
