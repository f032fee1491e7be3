// Builds dist/, what is shipped; with "test" also build/test/, what `node --test` runs.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { build } from "esbuild";

const shared = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };
rmSync("dist", { recursive: true, force: true });
await build({ ...shared, entryPoints: ["src/index.ts", "src/node.ts"], outdir: "dist", external: ["node:*"], splitting: true, minify: true, chunkNames: "[name]-[hash]" });
// All in one file, for a page that names it with its digest.
await build({ ...shared, entryPoints: ["src/index.ts"], outfile: "dist/client.min.js", minify: true });

const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
const types = ["--emitDeclarationOnly", "--declaration", "--rootDir", "src", "src/index.ts", "src/node.ts"];
const options = ["--ignoreConfig", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable", "--types", "node", "--strict", "--exactOptionalPropertyTypes", "--allowImportingTsExtensions", "--rewriteRelativeImportExtensions", "--outDir", "dist"];
const { status } = spawnSync(process.execPath, [tsc, ...types, ...options], { stdio: "inherit" });
if (status) process.exit(status);
if (existsSync("../../LICENSE")) copyFileSync("../../LICENSE", "LICENSE");

if (process.argv[2] === "test") {
  rmSync("build", { recursive: true, force: true });
  const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  await build({ ...shared, entryPoints: tests.map((name) => `test/${name}`), outdir: "build/test", platform: "node", outExtension: { ".js": ".mjs" } });
  // The same checks for a browser: nothing of Node is in them.
  const alias = { "node:test": "./test/shims/test.ts", "node:assert/strict": "./test/shims/assert.ts" };
  await build({ ...shared, entryPoints: ["test/browser.ts"], outfile: "build/browser/checks.js", alias, ignoreAnnotations: true });
  await build({ ...shared, entryPoints: ["test/impatient.ts"], outfile: "build/browser/impatient.js" });
}
