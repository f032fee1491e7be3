/**
 * The outbox of a device: for each plan and round the one report that was ever drawn.
 *
 * It is there, durably, before anything of it is sent. Every change is atomic, also between tabs
 * and processes: whoever asks second gets what the first one drew.
 */

import { NotSent } from "./errors.ts";

/** Something that is kept: plain data, as JSON can say it. */
export type Row = Readonly<Record<string, unknown>>;

export interface Outbox {
  /**
   * Put what `change` makes of a row into its place, all at once, and return it.
   *
   * `change` gets undefined where there is no row; it may be called more than once, and what it
   * returned last is what counts. If it throws, nothing changes.
   */
  update<Kept extends Row>(key: string, change: (old: Kept | undefined) => Kept): Promise<Kept>;
}

const STORE = "rows";

/** The outbox of a web page, in the database of its origin. */
export function browserOutbox(name = "chaffinch"): Outbox {
  let opened: Promise<IDBDatabase> | undefined;
  const close = () => (opened = undefined);
  return {
    async update(key, change) {
      opened ??= open(name, close);
      const database = await opened.catch((cause) => {
        close();
        throw notKept(cause);
      });
      return updated(database, key, change);
    },
  };
}

function open(name: string, closed: () => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => {
      // Another version of this page, or somebody who clears the storage, need not wait for this one.
      request.result.onversionchange = () => {
        request.result.close();
        closed();
      };
      request.result.onclose = closed;
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("the database is in use"));
  });
}

function updated<Kept extends Row>(database: IDBDatabase, key: string, change: (old: Kept | undefined) => Kept): Promise<Kept> {
  return new Promise((resolve, reject) => {
    // One transaction at a time writes: between reading and writing nobody else does either.
    const transaction = database.transaction(STORE, "readwrite", { durability: "strict" });
    const rows = transaction.objectStore(STORE);
    const read = rows.get(key) as IDBRequest<Kept | undefined>;
    let found: Kept;
    let fault: unknown;
    read.onsuccess = () => {
      try {
        found = change(read.result);
        if (found !== read.result) rows.put(found, key);
      } catch (thrown) {
        fault = thrown;
        transaction.abort();
      }
    };
    transaction.oncomplete = () => resolve(found);
    transaction.onabort = () => reject(fault ?? notKept(transaction.error));
  });
}

/** A report that cannot be kept is not sent either: a reload would draw another one. */
export function notKept(cause: unknown): NotSent {
  return new NotSent("The report could not be kept on this device, so nothing was sent.", cause);
}
