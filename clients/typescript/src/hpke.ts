/**
 * HPKE (RFC 9180) in base mode, sealing only: X25519, HKDF-SHA256, AES-128-GCM, empty aad.
 *
 * Web Crypto does every primitive. What depends on the key and the info alone is computed once.
 */

import { bigEndian, joined, utf8, type Bytes } from "./bytes.ts";
import { UnsupportedPlan } from "./errors.ts";

const X25519 = { name: "X25519" };
const VERSION = "HPKE-v1";
const KEM = joined([utf8("KEM"), bigEndian(0x0020, 2)]);
const HPKE = joined([utf8("HPKE"), bigEndian(0x0020, 2), bigEndian(0x0001, 2), bigEndian(0x0001, 2)]);
const NONE = new Uint8Array(0);

/** A pair of keys of X25519, and the public one as bytes. */
export interface Ephemeral {
  readonly privateKey: CryptoKey;
  readonly public: Bytes;
}

/** Makes a fresh pair for every envelope. Tests give another one. */
export type NewEphemeral = () => Promise<Ephemeral>;

export const freshEphemeral: NewEphemeral = async () => {
  const pair = (await crypto.subtle.generateKey(X25519, false, ["deriveBits"])) as CryptoKeyPair;
  return { privateKey: pair.privateKey, public: new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)) };
};

/** Refuse a device without X25519 or Ed25519, which no report can be sealed without. */
export async function requireCurves(): Promise<void> {
  try {
    await crypto.subtle.generateKey(X25519, false, ["deriveBits"]);
    await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign", "verify"]);
  } catch (cause) {
    throw new UnsupportedPlan("this browser lacks X25519 or Ed25519 of Web Crypto: a newer one has them", cause);
  }
}

function labeled(suite: Bytes, label: string, ...content: Uint8Array[]): Bytes {
  return joined([utf8(VERSION), suite, utf8(label), ...content]);
}

function labeledInfo(length: number, suite: Bytes, label: string, info: Uint8Array): Bytes {
  return joined([bigEndian(length, 2), labeled(suite, label, info)]);
}

/** LabeledExtract without a salt, which is HMAC with a key of zeros. */
async function extract(suite: Bytes, label: string, content: Uint8Array): Promise<Bytes> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const zeros = await crypto.subtle.importKey("raw", new Uint8Array(32), algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", zeros, labeled(suite, label, content)));
}

function material(content: Bytes): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", content, "HKDF", false, ["deriveBits"]);
}

/** Extract and expand at once. */
async function derive(key: CryptoKey, salt: Bytes, info: Bytes, length: number): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info }, key, 8 * length));
}

/** Seals for one key and one info. */
export class HpkeSealer {
  readonly #public: Bytes;
  readonly #key: CryptoKey;
  readonly #context: Bytes;
  readonly #secret: CryptoKey;
  readonly #fresh: NewEphemeral;

  private constructor(key: CryptoKey, known: Bytes, context: Bytes, secret: CryptoKey, fresh: NewEphemeral) {
    this.#key = key;
    this.#public = known;
    this.#context = context;
    this.#secret = secret;
    this.#fresh = fresh;
  }

  static async of(publicKey: Bytes, info: Bytes, fresh = freshEphemeral): Promise<HpkeSealer> {
    const key = await crypto.subtle.importKey("raw", publicKey, X25519, false, []);
    const context = joined([NONE, bigEndian(0, 1), await extract(HPKE, "psk_id_hash", NONE), await extract(HPKE, "info_hash", info)]);
    return new HpkeSealer(key, publicKey, context, await material(labeled(HPKE, "secret")), fresh);
  }

  /** The encapsulated key, and behind it the sealed content with its tag. */
  async seal(content: Bytes): Promise<Bytes> {
    const { enc, key, nonce } = await this.context();
    const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
    key.fill(0);
    const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv: nonce }, cipher, content);
    return joined([enc, new Uint8Array(sealed)]);
  }

  /** An encapsulated key, with what it leads to. */
  async context(): Promise<{ enc: Bytes; shared: Bytes; key: Bytes; nonce: Bytes }> {
    const own = await this.#fresh();
    const exchange = { name: "X25519", public: this.#key } as unknown as AlgorithmIdentifier;
    const dh = new Uint8Array(await crypto.subtle.deriveBits(exchange, own.privateKey, 256));
    // With a point of small order everybody agrees on zeros.
    if (dh.every((byte) => byte === 0)) throw new RangeError("a key that is none");
    const ikm = await material(labeled(KEM, "eae_prk", dh));
    dh.fill(0);
    const both = joined([own.public, this.#public]);
    const shared = await derive(ikm, NONE, labeledInfo(32, KEM, "shared_secret", both), 32);
    const [key, nonce] = await Promise.all([
      derive(this.#secret, shared, labeledInfo(16, HPKE, "key", this.#context), 16),
      derive(this.#secret, shared, labeledInfo(12, HPKE, "base_nonce", this.#context), 12),
    ]);
    return { enc: own.public, shared, key, nonce };
  }
}
