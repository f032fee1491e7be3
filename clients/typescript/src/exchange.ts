/** Requests that say nothing about the person: no credentials, no referrer, no cache. */

import { joined, type Bytes } from "./bytes.ts";
import type { JsonObject } from "./canonical.ts";
import { NotSent } from "./errors.ts";

export type Fetch = typeof fetch;

/** What a service said; with status 0 nobody knows whether the request arrived. */
export interface Reply {
  readonly status: number;
  readonly body: Bytes;
  /** The word of the problem that a service has; undefined for anything else. */
  readonly problem?: string;
  /** Seconds after which it wants to be asked again. */
  readonly retryAfter: number;
}

const PREFIX = "urn:chaffinch:error:";
const REPLY_MILLISECONDS = 60_000;
const LONGEST_WAIT = 3600;
const PASSING = ["overloaded", "slowBody", "outdatedKeys", "unseenKeys"];

/** Ask once; a reply of more than `most` bytes is none. */
export async function ask(
  fetched: Fetch,
  url: string,
  most: number,
  upload?: { readonly type: string; readonly body: Bytes },
  signal?: AbortSignal,
): Promise<Reply> {
  const timeout = AbortSignal.timeout(REPLY_MILLISECONDS);
  try {
    const response = await fetched(url, {
      ...(upload ? { method: "POST", body: upload.body, headers: { "content-type": upload.type } } : {}),
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      redirect: "error",
      mode: "cors",
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const body = await bodyOf(response, most);
    const problem = response.status >= 400 ? problemIn(body) : undefined;
    const wait = response.headers.get("retry-after") ?? "";
    const retryAfter = /^[0-9]{1,9}$/.test(wait) ? Math.min(Number(wait), LONGEST_WAIT) : 0;
    return { status: response.status, body, retryAfter, ...(problem === undefined ? {} : { problem }) };
  } catch {
    signal?.throwIfAborted();
    return { status: 0, body: new Uint8Array(0), retryAfter: 0 };
  }
}

async function bodyOf(response: Response, most: number): Promise<Bytes> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const reader = response.body?.getReader(); reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) {
      await reader.cancel();
      throw new RangeError("a reply that is too long");
    }
    parts.push(value);
  }
  return joined(parts);
}

function problemIn(body: Bytes): string | undefined {
  try {
    const { type } = JSON.parse(new TextDecoder().decode(body)) as JsonObject;
    return typeof type === "string" && type.startsWith(PREFIX) ? type.slice(PREFIX.length) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether to ask again: nobody answered, not now, or for other keys. */
export function passes({ status, problem }: Reply): boolean {
  return problem === undefined ? status === 0 || status === 429 || status >= 500 : PASSING.includes(problem);
}

export function saying({ status, problem }: Reply): string {
  // A word that a service makes up is not shown.
  const known = problem !== undefined && /^[a-zA-Z]{1,40}$/.test(problem) ? ` (${problem})` : "";
  return status ? `the status ${status}${known}` : "no answer";
}

/** Longer and longer pauses, each of random length, until patience ends. All in milliseconds. */
export class Pauses {
  readonly #last: number;
  #pause: number;

  constructor(patience: number, first: number) {
    this.#last = performance.now() + patience;
    this.#pause = first;
  }

  /** Wait before the next try; return false if there is to be none. */
  async wait(least: number, signal?: AbortSignal): Promise<boolean> {
    const left = this.#last - performance.now();
    if (left <= least) return false;
    // Devices that failed together do not come back together.
    const share = crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
    const pause = Math.min(least + this.#pause * share, left);
    this.#pause = Math.min(2 * this.#pause, 60_000);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, pause);
      const stop = () => {
        clearTimeout(timer);
        reject(new NotSent("Sending was stopped; the report is kept.", signal?.reason));
      };
      signal?.addEventListener("abort", stop, { once: true });
    });
    return true;
  }
}
