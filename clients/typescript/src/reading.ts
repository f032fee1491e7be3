/** Reading a plan: everything is of the type that is expected, and nothing is there besides. */

import type { Json, JsonObject } from "./canonical.ts";
import { UnsupportedPlan } from "./errors.ts";

type Value = Json | undefined;

function refuse(what: string): never {
  throw new UnsupportedPlan(`this client does not understand the plan: ${what}`);
}

export function object(value: Value): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse("something is no object");
  return value as JsonObject;
}

/** An object with these fields; another one might change what they mean. */
export function fields(value: Value, needed: readonly string[], others: readonly string[] = []): JsonObject {
  const found = object(value);
  for (const name of needed) if (!Object.hasOwn(found, name)) refuse(`${name} is missing`);
  for (const name of Object.keys(found)) {
    if (!needed.includes(name) && !others.includes(name)) refuse(`the field ${name.slice(0, 40)}`);
  }
  return found;
}

export function list(value: Value, most: number, least = 0): readonly Json[] {
  if (!Array.isArray(value) || value.length > most || value.length < least) refuse("a list of another length");
  return value;
}

export function text(value: Value): string {
  if (typeof value !== "string" || value.length > 2000) refuse("something is no text");
  return value;
}

export function flag(value: Value): boolean {
  if (typeof value !== "boolean") refuse("something is neither true nor false");
  return value;
}

export function whole(value: Value, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most) refuse("a number out of range");
  return value as number;
}

/** A floating-point number that is written as a text. */
export function real(value: Value): number {
  const found = Number(text(value));
  if (!/^-?[0-9][0-9.e+-]*$/.test(value as string) || !Number.isFinite(found)) refuse("a text that is no number");
  return found;
}

export function requireFit(fits: boolean): void {
  if (!fits) refuse("a protocol that does not fit its question");
}
