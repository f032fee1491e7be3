/** The client: from an answer to a report that the first hop has, each step once. */

import { equal, hex, unhex, type Bytes } from "./bytes.ts";
import { GuaranteeNotProven, InsecureContext, InvalidAnswer, NotSent, PlanNotTrusted, Refused, UnsupportedPlan } from "./errors.ts";
import { ask, passes, Pauses, saying, type Fetch, type Reply } from "./exchange.ts";
import { requireCurves } from "./hpke.ts";
import { LONGEST_LISTS, NotTheKeys, readKeyLists, type KeyList, type SealingKey } from "./keys.ts";
import { browserOutbox, type Outbox } from "./outbox.ts";
import { draw, namesOf, prepare, readPlan, type Plan } from "./plan.ts";
import type { Answer } from "./questions.ts";
import { itemsOf, namesIn, payloadOf, wrap } from "./sealing.ts";
import type { Guarantee, Verify, Within } from "./verify/index.ts";
import { secureWords, type Words } from "./words.ts";

export interface Options {
  /** The address of the first hop. */
  readonly url: string;
  /** The id of the plan, which the page pins: 64 hexadecimal digits. */
  readonly plan: string;
  /** The most that this device accepts, whatever the plan promises. */
  readonly within: Within;
  /** Where the report is kept: in a browser by itself, on a server `fileOutbox(folder)`. */
  readonly outbox?: Outbox;
}

/** What a client is made with; only tests give other parts. */
export interface Parts {
  readonly verify: Verify;
  readonly fetch?: Fetch;
  readonly words?: Words;
  /** Milliseconds for which a service that does not answer is asked again. */
  readonly patience?: number;
  /** The most milliseconds before it is asked for the second time. */
  readonly firstPause?: number;
}

/** What became of a report. */
export type State = "waiting" | "arrived" | "given up";

/** A report as it is kept. What was sealed is in hexadecimal digits. */
type Kept = {
  readonly state: State;
  /** The codes of each report, as long as nothing of them has left the device. */
  readonly codes?: readonly (readonly number[])[];
  readonly payloads?: readonly string[];
  /** The bytes that are sent. */
  readonly sealed?: string;
  /** How many uploads are under way, or have ended without anybody knowing how. */
  readonly open: number;
  /** Whether somebody has seen them, and said that they were not taken. */
  readonly seen: boolean;
};

/** The newest key list of each party that was seen, by its identity. */
type Seen = { readonly [identity: string]: { readonly serial: string; readonly digest: string } };

const LONGEST_PLAN = 64 << 20;
const LONGEST_REPLY = 1 << 16;
const PATIENCE = 60_000;
const FIRST_PAUSE = 1000;
const REPORTS = "application/vnd.chaffinch.reports";

/** What all reports of a client share. */
interface Setting {
  readonly plan: Plan;
  readonly url: string;
  readonly outbox: Outbox;
  readonly fetched: Fetch;
  readonly words: Words;
  readonly patience: number;
  readonly firstPause: number;
}

export class Client {
  readonly plan: Plan;
  /** What this device has proved. */
  readonly guarantee: Guarantee;
  readonly #setting: Setting;

  private constructor(plan: Plan, guarantee: Guarantee, setting: Setting) {
    this.plan = plan;
    this.guarantee = guarantee;
    this.#setting = setting;
  }

  static async of(options: Options, parts: Parts): Promise<Client> {
    const url = `${addressOf(options.url)}/v1/plans/${planIdOf(options.plan)}`;
    const { epsilon, delta } = options.within;
    if (!(epsilon > 0 && delta >= 0 && delta < 1)) throw new RangeError("within must have an epsilon above 0 and a delta from 0 to below 1");
    if (!globalThis.crypto?.subtle) throw new InsecureContext("Web Crypto is there only on pages from https, or from this machine.");
    await requireCurves();
    if (!options.outbox && !globalThis.indexedDB) throw new InsecureContext("There is no database here to keep a report in: give an outbox.");
    // A method of the window, which another object must not call.
    const fetched: Fetch = parts.fetch ?? ((...request) => fetch(...request));
    const reply = await ask(fetched, url, LONGEST_PLAN);
    if (reply.status !== 200) throw new NotSent(`The plan was not there: ${saying(reply)}.`);
    const plan = await readPlan(new TextDecoder("utf-8", { ignoreBOM: true }).decode(reply.body), options.plan);
    if (!plan.parties.length) throw new UnsupportedPlan("the plan names nobody who runs it");
    const verdict = await parts.verify(plan, options.within);
    if (!verdict.proven) throw new GuaranteeNotProven(`Nothing is sent: ${verdict.reason}.`);
    return new Client(plan, verdict.guarantee, {
      plan,
      url,
      fetched,
      outbox: options.outbox ?? browserOutbox(),
      words: parts.words ?? secureWords,
      patience: parts.patience ?? PATIENCE,
      firstPause: parts.firstPause ?? FIRST_PAUSE,
    });
  }

  /**
   * Randomize an answer, once, and keep the report; or return the one that is kept already.
   *
   * A survey is answered by an object with all names; null is a missing answer. Where everybody
   * sends several reports, this takes a list of that many answers, or fewer.
   */
  async report(answer: Answer | readonly Answer[], { round }: { readonly round?: number } = {}): Promise<Report> {
    const { plan, outbox, words } = this.#setting;
    const number = roundOf(plan, round);
    const answers = answersOf(plan, answer).map((one) => prepare(plan, one));
    let isFirst = true;
    await outbox.update<Kept>(`${plan.id}/${number}`, (old) => {
      isFirst = old === undefined;
      return old ?? { state: "waiting", codes: answers.map((one) => draw(plan, one, words)), open: 0, seen: false };
    });
    return new Report(new Delivery(this.#setting, number), !isFirst);
  }
}

/** A report, which is sent as the same bytes until the first hop has it. */
export class Report {
  readonly #delivery: Delivery;
  /** Whether an answer was given before, for the same round: then it is that one that counts. */
  readonly earlier: boolean;

  constructor(delivery: Delivery, earlier: boolean) {
    this.#delivery = delivery;
    this.earlier = earlier;
  }

  /** Send it, unless it has arrived; NotSent says that it is kept, and can be sent later. */
  async send({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    try {
      signal?.throwIfAborted();
      await this.#delivery.run(signal);
    } catch (fault) {
      if (signal?.aborted && !(fault instanceof NotSent)) throw new NotSent("Sending was stopped; the report is kept.", fault);
      throw fault;
    }
  }
}

/** The way of one report to the first hop. What is known of it is in the outbox alone: other tabs send too. */
class Delivery {
  readonly #setting: Setting;
  readonly #round: number;

  constructor(setting: Setting, round: number) {
    this.#setting = setting;
    this.#round = round;
  }

  async run(signal?: AbortSignal): Promise<void> {
    const pauses = new Pauses(this.#setting.patience, this.#setting.firstPause);
    for (;;) {
      const before = await this.#change((old) => old);
      if (before.state === "arrived") return;
      if (before.state === "given up") throw givenUp();
      const reply = await this.#sendOnce(signal);
      if (!reply) continue; // It is not what it was a moment ago: look again.
      if (reply.status === 201) return;
      if (!passes(reply)) {
        if (reply.problem !== undefined) throw new Refused(`The first hop refused the report: ${saying(reply)}.`);
        throw new NotSent(`The report is kept, and did not arrive: ${saying(reply)}.`);
      }
      if (!(await pauses.wait(1000 * reply.retryAfter, signal))) {
        throw new NotSent(`The report is kept, and is not known to have arrived: ${saying(reply)}.`);
      }
    }
  }

  /** The reply to an upload; undefined if there was none to send, because the report has changed. */
  async #sendOnce(signal?: AbortSignal): Promise<Reply | undefined> {
    const lists = await this.#keyLists(signal);
    if (!Array.isArray(lists)) {
      if (passes(lists)) return lists;
      throw new NotSent(`The report is kept; the first hop did not show the keys of all parties: ${saying(lists)}.`);
    }
    const sealed = await this.#sealed(lists);
    if (!sealed) return undefined;
    const body = unhex(sealed);
    // Noted before it leaves: after a crash it may have arrived. Then the codes are of no use any more.
    const noted = await this.#change((old) => (old.sealed === sealed ? without(old, "codes", { open: old.open + 1 }) : old));
    if (noted.sealed !== sealed) return undefined; // Another tab has sealed it anew, or sent it.
    const reply = await ask(this.#setting.fetched, `${this.#setting.url}/rounds/${this.#round}/reports`, LONGEST_REPLY, { type: REPORTS, body }, signal);
    if (reply.status === 201) await this.#end("arrived");
    // A service of ours takes a body whole or not at all, and says so itself.
    else if (reply.problem !== undefined) await this.#change((old) => ({ ...old, open: Math.max(0, old.open - 1), seen: true }));
    const isOver = reply.problem === "outdatedKeys" && (await this.#unwrap(sealed, signal));
    return isOver ? undefined : reply;
  }

  /** The bytes to send. They are kept before anything of them leaves, and never replaced by others that might count too. */
  async #sealed(lists: readonly KeyList[]): Promise<string | undefined> {
    const keys = lists.map((list) => list.keys[0]);
    const kept = await this.#change((old) => old);
    if (kept.state !== "waiting") return undefined;
    const opens = kept.payloads?.every((payload) => opensWith(unhex(payload), lists)) ?? false;
    if ((kept.open || kept.seen) && !opens) {
      // Nobody could open it any more, and sealed anew it could count twice.
      await this.#end("given up");
      return undefined;
    }
    if (kept.sealed && opens) return kept.sealed;
    const payloads = opens && kept.payloads ? kept.payloads : await this.#payloads(kept, keys).catch(notSealed);
    let sealed = "";
    for (const payload of payloads) {
      sealed += hex(await wrap(this.#setting.plan, this.#round, keys[0], unhex(payload)).catch(notSealed));
    }
    const now = await this.#change((old) => {
      // Of two tabs that seal at once the first one counts.
      const untouched = old.sealed === kept.sealed && old.open === kept.open && old.state === "waiting";
      return untouched ? { ...old, payloads, sealed } : old;
    });
    return now.sealed;
  }

  async #payloads(kept: Kept, keys: readonly SealingKey[]): Promise<string[]> {
    const found: string[] = [];
    for (const codes of kept.codes ?? []) {
      found.push(hex(await payloadOf(this.#setting.plan, this.#round, keys, itemsOf(this.#setting.plan, codes, this.#setting.words))));
    }
    return found;
  }

  /**
   * Let a report of which no copy was taken have another envelope, if the key of this one is gone.
   *
   * True if a copy may have arrived instead: then it is given up.
   */
  async #unwrap(sealed: string, signal?: AbortSignal): Promise<boolean> {
    const lists = await this.#keyLists(signal);
    if (!Array.isArray(lists)) return false;
    // That a key is outdated anybody on the way can say: only the signed list counts.
    const head = unhex(sealed.slice(0, 14));
    if (lists[0].keys.some((key: SealingKey) => equal(key.head, head))) return false;
    const now = await this.#change((old) => (old.sealed === sealed && !old.open ? without(old, "sealed", {}) : old));
    if (now.sealed !== sealed) return false;
    await this.#end("given up");
    return true;
  }

  /** The keys of all parties as the first hop gives them out now; never older ones than before. */
  async #keyLists(signal?: AbortSignal): Promise<KeyList[] | Reply> {
    const reply = await ask(this.#setting.fetched, `${this.#setting.url}/key-lists`, LONGEST_LISTS, undefined, signal);
    if (reply.status !== 200) return reply;
    try {
      const lists = await readKeyLists(reply.body, this.#setting.plan);
      await this.#setting.outbox.update<Seen>(`${this.#setting.plan.id}/keys`, (old) => newest(old, this.#setting.plan, lists));
      return lists;
    } catch (fault) {
      if (!(fault instanceof NotTheKeys)) throw fault;
      throw new NotSent("The first hop did not show the keys of the plan's parties, so nothing was sealed for them.", fault);
    }
  }

  async #end(state: "arrived" | "given up"): Promise<void> {
    await this.#change((old) => (old.state === "arrived" ? old : { state, open: 0, seen: true }));
  }

  #change(change: (old: Kept) => Kept): Promise<Kept> {
    return this.#setting.outbox.update<Kept>(`${this.#setting.plan.id}/${this.#round}`, (old) => {
      if (!old) throw new NotSent("What this device had kept was cleared: ask again.");
      return change(old);
    });
  }
}

function without(kept: Kept, field: "codes" | "sealed", changed: Partial<Kept>): Kept {
  const { [field]: _, ...rest } = kept;
  return { ...rest, ...changed } as Kept;
}

function notSealed(cause: unknown): never {
  throw new NotSent("The report is kept: it could not be sealed for the keys of the plan's parties.", cause);
}

function givenUp(): Refused {
  return new Refused("The report may have arrived, and is given up: sent in another envelope it could count twice.");
}

/** Whether all parties behind the first hop have the keys that a payload is sealed for. */
function opensWith(payload: Bytes, lists: readonly KeyList[]): boolean {
  return namesIn(payload, lists.length).every((name, at) => lists[at + 1].keys.some((key) => equal(key.name, name)));
}

function newest(old: Seen | undefined, plan: Plan, lists: readonly KeyList[]): Seen {
  const found = { ...old };
  let changed = old === undefined;
  lists.forEach(({ serial, digest }, at) => {
    const identity = plan.parties[at].identity;
    const known = found[identity];
    if (known?.digest === digest) return;
    if (known && serial <= BigInt(known.serial)) throw new NotTheKeys("an older list");
    found[identity] = { serial: String(serial), digest };
    changed = true;
  });
  return changed || !old ? found : old;
}

function addressOf(url: string): string {
  let parts: URL;
  try {
    parts = new URL(url);
  } catch {
    throw new InsecureContext("The address of the first hop must start with https.");
  }
  const own = parts.hostname === "localhost" || parts.hostname === "[::1]" || /^127\.[0-9.]+$/.test(parts.hostname);
  // A device believes the first hop that it did not take a report.
  if (parts.protocol !== "https:" && !(parts.protocol === "http:" && own)) {
    throw new InsecureContext("The address of the first hop must start with https, or be on this machine.");
  }
  return `${parts.origin}${parts.pathname.replace(/\/+$/, "")}`;
}

function planIdOf(id: string): string {
  if (!/^[0-9a-f]{64}$/.test(id)) throw new PlanNotTrusted("The id of a plan has 64 hexadecimal digits.");
  return id;
}

function roundOf(plan: Plan, round?: number): number {
  const number = round ?? (plan.rounds === 1 ? 1 : 0);
  if (!Number.isSafeInteger(number) || number < 1 || number > plan.rounds) {
    throw new InvalidAnswer(`The round must be a whole number from 1 to ${plan.rounds}.`);
  }
  return number;
}

function answersOf(plan: Plan, answer: Answer | readonly Answer[]): readonly Answer[] {
  if (plan.contributions === 1) return [answer as Answer];
  if (!Array.isArray(answer) || answer.length > plan.contributions) {
    throw new InvalidAnswer(`An answer must be a list of at most ${plan.contributions} answers, one for each report.`);
  }
  const names = namesOf(plan);
  const silent: Answer = names.length === 1 ? null : Object.fromEntries(names.map((name) => [name, null]));
  return [...(answer as Answer[]), ...Array<Answer>(plan.contributions - answer.length).fill(silent)];
}
