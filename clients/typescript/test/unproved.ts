/** The client with a verifier that says yes to everything: for tests of all that is behind it. */

import { Client, type Options } from "../src/client.ts";
import type { Verify } from "../src/verify/index.ts";

export * from "../src/errors.ts";

const verify: Verify = (plan) => ({
  proven: true,
  guarantee: { epsilon: plan.epsilon, delta: plan.delta, sentence: "Nothing was proved: this is a test." },
});

export function createClient(options: Options): Promise<Client> {
  return Client.of(options, { verify, firstPause: 50, patience: 1000 });
}
