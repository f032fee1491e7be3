/**
 * Clear values among uniform ones.
 *
 * Of the decoys of all senders T ~ Bin(senders, chance) are at the two values in question. Given T
 * the view is 1 + Bin(T, ½) against Bin(T, ½), and its mirror image. With b the masses of Bin(T, ½)
 * and k the first place with k + 1 ≥ e^ε·(T − k), delta given T is Σ b(k…T) − e^ε·Σ b(k + 1…T).
 */

import { over, UNIT, type Chance, type Effort } from "./arithmetic.ts";
import { binomial } from "./laws.ts";

const HALF: Chance = { hit: 0.5, miss: 0.5 };
/** A smaller chance might lose its digits. */
const LEAST = 1e-118;

export class Decoys {
  readonly local = undefined;
  readonly #senders: number;
  readonly #chance: Chance;

  constructor(senders: number, chance: Chance) {
    [this.#senders, this.#chance] = [senders, chance];
  }

  async holds(growth: number, delta: number, effort: Effort): Promise<boolean> {
    return (await this.profile(Float64Array.of(growth), delta * 1e-9, effort))[0] <= delta;
  }

  async profile(growths: Float64Array, least: number, effort: Effort): Promise<Float64Array> {
    const { first, masses, missing, steps } = binomial(this.#senders, this.#chance, least, effort);
    const start = binomial(first, HALF, LEAST, effort);
    const found = new Float64Array(growths.length);
    for (const [at, growth] of growths.entries()) {
      await effort.breathe();
      effort.spend(10 * masses.length);
      const counts = (count: number, k: number) => (k + 1) * over(4) >= growth * (count - k);
      const place = (count: number) => {
        let k = Math.min(Math.max(Math.ceil((count * growth - 1) / (growth + 1)), 0), count);
        while (!counts(count, k)) k++;
        while (k > 0 && counts(count, k - 1)) k--;
        return k;
      };
      let [total, count, k] = [missing, first, place(first)];
      let mass = start.masses[k - start.first] ?? LEAST;
      let worked = start.steps;
      for (let index = 0; ; ) {
        // Geometric at the most, so the sum is over where nothing changes any more.
        let [rest, term] = [0, mass];
        let i = k;
        for (; i < count && term > rest * UNIT; i++) rest += term *= (count - i) / (i + 1);
        effort.spend(3 * (i - k) + 10);
        const room = over(16 * (worked + (i - k) * 4 + steps + 64));
        if (mass <= LEAST) {
          // Decoys more never hurt: delta of all that is left is below this one.
          total += LEAST * (count + 1);
          break;
        }
        total += masses[index] * Math.max(mass * room - ((growth - 1) * rest) / room, 0) * room;
        if (++index === masses.length) break;
        // One decoy more, then perhaps one place more.
        count++;
        mass *= count / (2 * (count - k));
        worked += 4;
        for (const next = place(count); k < next; k++) {
          mass *= (count - k) / (k + 1);
          worked += 4;
        }
      }
      found[at] = total;
    }
    return found;
  }
}
