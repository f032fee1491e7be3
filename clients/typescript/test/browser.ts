/** All checks but those of folders, for a browser: `run()` says what became of them. */

import "./words.test.ts";
import "./draws.test.ts";
import "./sealing.test.ts";
import "./client.test.ts";
import "./verify.test.ts";
import "./database.check.ts";

import { run } from "./shims/test.ts";

Object.assign(globalThis, { run });
