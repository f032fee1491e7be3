/** Protocols whose noise many devices share out; they are loaded where a plan has one. */

export { signed } from "./signed.ts";
export { weighted } from "./weighted.ts";
