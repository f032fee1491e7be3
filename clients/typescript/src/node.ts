/** What a server has in place of a browser's database: a folder, for one person and nobody else. */

import { link, mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";

import { notKept, type Outbox, type Row } from "./outbox.ts";

/**
 * An outbox in a folder, which only its owner can read.
 *
 * A row is a file for each of its versions. A version is made by a link to a file that is complete:
 * of two processes that make the same one only the first succeeds, and the other looks again.
 */
export function fileOutbox(folder: string): Outbox {
  return {
    async update<Kept extends Row>(key: string, change: (old: Kept | undefined) => Kept): Promise<Kept> {
      const name = createHash("sha256").update(key).digest("hex");
      await mkdir(folder, { recursive: true, mode: 0o700 }).catch(refuse);
      for (;;) {
        const versions = await versionsOf(folder, name).catch(refuse);
        const newest = versions.at(-1) ?? 0;
        const old = newest ? await readVersion<Kept>(folder, name, newest).catch(refuse) : undefined;
        if (newest && !old) continue; // Somebody has made a newer one meanwhile.
        const found = change(old);
        if (found === old) return found;
        if (!(await writeVersion(folder, name, newest + 1, found).catch(refuse))) continue;
        // Others may have made this version and a newer one, and removed it again: then theirs count.
        const isNewest = (await versionsOf(folder, name).catch(refuse)).at(-1) === newest + 1;
        const outdated = isNewest ? versions : [newest + 1];
        for (const version of outdated) await rm(join(folder, `${name}.${version}`), { force: true }).catch(refuse);
        if (isNewest) return found;
      }
    },
  };
}

function refuse(cause: unknown): never {
  throw notKept(cause);
}

async function versionsOf(folder: string, name: string): Promise<number[]> {
  const found = (await readdir(folder)).filter((one) => one.startsWith(`${name}.`) && /^[0-9]+$/.test(one.slice(65)));
  return found.map((one) => Number(one.slice(65))).sort((one, other) => one - other);
}

async function readVersion<Kept extends Row>(folder: string, name: string, version: number): Promise<Kept | undefined> {
  try {
    return JSON.parse(await readFile(join(folder, `${name}.${version}`), "utf8")) as Kept;
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw fault;
  }
}

/** Whether this version was made here, durably; false if somebody else was first. */
async function writeVersion(folder: string, name: string, version: number, row: Row): Promise<boolean> {
  const draft = join(folder, `draft.${randomUUID()}`);
  try {
    const file = await open(draft, "wx", 0o600);
    try {
      await file.writeFile(JSON.stringify(row));
      await file.sync();
    } finally {
      await file.close();
    }
    await link(draft, join(folder, `${name}.${version}`));
    const entries = await open(folder, "r");
    await entries.sync().finally(() => entries.close());
    return true;
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw fault;
  } finally {
    await rm(draft, { force: true });
  }
}
