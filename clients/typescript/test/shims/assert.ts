/** What the checks use of node:assert, where there is no Node. */

function fail(message: unknown, usual: string): never {
  throw message instanceof Error ? message : new Error(String(message ?? usual));
}

function same(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return false;
  if (Object.getPrototypeOf(one) !== Object.getPrototypeOf(other)) return false;
  const keys = Object.keys(one);
  if (keys.length !== Object.keys(other).length) return false;
  return keys.every((key) => Object.hasOwn(other, key) && same(one[key as never], other[key as never]));
}

function matches(fault: unknown, expected?: unknown): boolean {
  if (expected instanceof RegExp) return expected.test(String(fault));
  if (typeof expected !== "function") return true;
  return expected.prototype instanceof Error ? fault instanceof (expected as never) : Boolean(expected(fault));
}

const shown = (value: unknown) => JSON.stringify(value, (_, one) => (typeof one === "bigint" ? `${one}n` : one))?.slice(0, 500);

const assert = {
  ok(value: unknown, message?: unknown): void {
    if (!value) fail(message, "it is not true");
  },
  equal(one: unknown, other: unknown, message?: unknown): void {
    if (!Object.is(one, other)) fail(message, `${shown(one)} is not ${shown(other)}`);
  },
  notEqual(one: unknown, other: unknown, message?: unknown): void {
    if (Object.is(one, other)) fail(message, `both are ${shown(one)}`);
  },
  deepEqual(one: unknown, other: unknown, message?: unknown): void {
    if (!same(one, other)) fail(message, `${shown(one)} is not ${shown(other)}`);
  },
  notDeepEqual(one: unknown, other: unknown, message?: unknown): void {
    if (same(one, other)) fail(message, `both are ${shown(one)}`);
  },
  throws(call: () => unknown, expected?: unknown, message?: unknown): void {
    try {
      call();
    } catch (fault) {
      if (!matches(fault, expected)) fail(message, `another error: ${fault}`);
      return;
    }
    fail(message, "no error");
  },
  async rejects(promise: Promise<unknown>, expected?: unknown, message?: unknown): Promise<void> {
    let found: unknown;
    try {
      found = await promise;
    } catch (fault) {
      if (!matches(fault, expected)) fail(message, `another error: ${fault}`);
      return;
    }
    fail(typeof expected === "string" ? expected : message, `no error: ${shown(found)}`);
  },
};

export default assert;
