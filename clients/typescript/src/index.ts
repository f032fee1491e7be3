/** Answer a chaffinch survey: check the plan, randomize, seal, send. */

import { Client, type Options } from "./client.ts";
import { verify } from "./verify/index.ts";

export type { Client, Options, Report } from "./client.ts";
export * from "./errors.ts";
export type { Outbox } from "./outbox.ts";
export type { Answer } from "./questions.ts";
export type { Guarantee, Within } from "./verify/index.ts";

/** A client for one plan, which this device has verified. */
export function createClient(options: Options): Promise<Client> {
  return Client.of(options, { verify });
}
