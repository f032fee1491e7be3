/** What the checks use of node:test, where there is no Node: a list, run in its order. */

type Check = () => unknown;

const checks: [name: string, check: Check][] = [];

export function test(name: string, check: Check): void {
  checks.push([name, check]);
}

/** Run all checks; return the names of those that passed, and why others failed. */
export async function run(): Promise<{ passed: string[]; failed: string[] }> {
  const [passed, failed]: string[][] = [[], []];
  for (const [name, check] of checks) {
    try {
      await check();
      passed.push(name);
    } catch (fault) {
      failed.push(`${name}: ${fault instanceof Error ? fault.stack : fault}`);
    }
  }
  return { passed, failed };
}
