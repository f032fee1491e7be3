/** Everything that this package refuses on purpose. No message repeats an answer. */
export class ChaffinchError extends Error {
  constructor(name: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = name;
  }
}

/** The file that was served is not the plan that the page pins. */
export class PlanNotTrusted extends ChaffinchError {
  constructor(message: string) {
    super("PlanNotTrusted", message);
  }
}

/** This device could not prove that the plan protects as much as the page asks for. */
export class GuaranteeNotProven extends ChaffinchError {
  constructor(message: string) {
    super("GuaranteeNotProven", message);
  }
}

/** The plan needs something that this client, or this browser, does not have. */
export class UnsupportedPlan extends ChaffinchError {
  constructor(message: string, cause?: unknown) {
    super("UnsupportedPlan", message, cause);
  }
}

/** What was given is no answer to the questions of the plan. */
export class InvalidAnswer extends ChaffinchError {
  constructor(message: string) {
    super("InvalidAnswer", message);
  }
}

/** The report is kept, and not known to have arrived: send it again later. */
export class NotSent extends ChaffinchError {
  constructor(message: string, cause?: unknown) {
    super("NotSent", message, cause);
  }
}

/** The report will not be counted, or must not be sent again: trying again does not help. */
export class Refused extends ChaffinchError {
  constructor(message: string) {
    super("Refused", message);
  }
}

/** There is no cryptography here, or the address could be answered by anybody on the way. */
export class InsecureContext extends ChaffinchError {
  constructor(message: string) {
    super("InsecureContext", message);
  }
}
