/** Whether a plan protects as much as somebody asks for: proved on this device, or not at all. */

import type { Plan } from "../plan.ts";

/** The most that a device accepts, whatever a plan promises. */
export interface Within {
  readonly epsilon: number;
  readonly delta: number;
}

/** What was proved, in numbers and as a sentence. */
export interface Guarantee {
  readonly epsilon: number;
  readonly delta: number;
  readonly sentence: string;
}

export type Verdict =
  | { readonly proven: true; readonly guarantee: Guarantee }
  | { readonly proven: false; readonly reason: string };

export type Verify = (plan: Plan, within: Within) => Verdict | Promise<Verdict>;

/** Prove that one person's answers are protected within these limits, or say why that is not proved. */
export const verify: Verify = async (plan, within) => {
  const { epsilon, delta } = plan;
  // Not the other way round: NaN must be refused.
  if (!(epsilon <= within.epsilon && delta <= within.delta)) {
    return { proven: false, reason: `the plan promises epsilon ${epsilon} and delta ${delta}, which is not within what the page asks for` };
  }
  const { NotProved, prove, sentenceOf } = await import("./proof.ts");
  try {
    await prove(plan);
  } catch (fault) {
    if (fault instanceof NotProved) return { proven: false, reason: `the promise of the plan is not proved: ${fault.message}` };
    throw fault;
  }
  return { proven: true, guarantee: { epsilon, delta, sentence: sentenceOf(plan) } };
};
