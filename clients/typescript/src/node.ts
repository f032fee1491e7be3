/** What a server has in place of a browser's database: a folder, for one person and nobody else. */

import { createHash, randomUUID } from "node:crypto";
import { link, mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";

import { notKept, type Outbox, type Row } from "./outbox.ts";

/**
 * An outbox in a folder, which only its owner can read.
 *
 * A row is a file for each of its versions: 1, 2, … A version is made by a link to a file that is
 * complete, and never removed: of two processes that make the same one only the first succeeds, and
 * the other looks again. What an older version said is removed, and its empty file stays.
 */
export function fileOutbox(folder: string): Outbox {
  return {
    async update<Kept extends Row>(key: string, change: (old: Kept | undefined) => Kept): Promise<Kept> {
      const path = join(folder, createHash("sha256").update(key).digest("hex"));
      await mkdir(folder, { recursive: true, mode: 0o700 }).catch(refuse);
      for (let version = 0; ; ) {
        const [newest, old] = await newestOf<Kept>(path, version).catch(refuse);
        const found = change(old);
        if (found === old) return found;
        version = newest;
        if (!(await write(folder, `${path}.${newest + 1}`, JSON.stringify(found)).catch(refuse))) continue;
        if (newest) await empty(folder, `${path}.${newest}`).catch(refuse);
        return found;
      }
    },
  };
}

function refuse(cause: unknown): never {
  throw notKept(cause);
}

/** The newest version of a row from `version` on, and what it says; 0 and undefined where there is none. */
async function newestOf<Kept extends Row>(path: string, version: number): Promise<[number, Kept | undefined]> {
  let said: string | undefined;
  for (;;) {
    const next = await readFile(`${path}.${version + 1}`, "utf8").catch((fault: NodeJS.ErrnoException) => {
      if (fault.code !== "ENOENT") throw fault;
      return undefined;
    });
    if (next !== undefined) [version, said] = [version + 1, next];
    else if (said) return [version, JSON.parse(said) as Kept];
    else if (version === 0) return [0, undefined];
    // An empty one is older: there is one behind it.
    else throw new Error("a version is missing");
  }
}

/** Make a file, complete and durable; false if somebody else has made it before. */
async function write(folder: string, path: string, content: string): Promise<boolean> {
  const draft = await drafted(folder, content);
  try {
    await link(draft, path);
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw fault;
  } finally {
    await rm(draft, { force: true });
  }
  const entries = await open(folder, "r");
  await entries.sync().finally(() => entries.close());
  return true;
}

async function empty(folder: string, path: string): Promise<void> {
  await rename(await drafted(folder, ""), path);
}

async function drafted(folder: string, content: string): Promise<string> {
  const draft = join(folder, `draft.${randomUUID()}`);
  const file = await open(draft, "wx", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  return draft;
}
