/** What JSON can say. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/**
 * The canonical form of RFC 8785: what `JSON.stringify` writes, with sorted keys.
 *
 * The default order of `sort` is that of UTF-16 code units, as the RFC asks for.
 */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const object = value as JsonObject;
    const entries = Object.keys(object)
      .sort()
      .map((key) => `${canonical(key)}:${canonical(object[key])}`);
    return `{${entries.join(",")}}`;
  }
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new RangeError("a number that is not whole");
  const text = JSON.stringify(value);
  // JSON.stringify would escape half a character; the RFC refuses it.
  if (typeof value === "string" && /\p{Surrogate}/u.test(value)) throw new RangeError("half a character");
  return text;
}
