/** The client as it is shipped, which asks a service that does not answer again for a second, not for a minute. */

import { Client, type Options } from "../src/client.ts";
import { verify } from "../src/verify/index.ts";

export * from "../src/errors.ts";

export function createClient(options: Options): Promise<Client> {
  return Client.of(options, { verify, firstPause: 50, patience: 1000 });
}
