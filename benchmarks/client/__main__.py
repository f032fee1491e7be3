"""Run with ``python -m benchmarks.client``: sizes and times in Chromium, beside a client of DAP.

Both answer one of four values, in one run of one browser. A report of DAP is two shares of a
proof; its client is the package ``@divviup/dap``.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

from benchmarks.findings import Finding, Line
from tests.clients import node
from tests.clients.test_typescript import loaded_at_once, serving
from tests.web.browsing import browser

HERE = Path(__file__).parent


def main() -> int:
    """Measure, and print tables, or JSON if that is asked for."""
    node.install()
    client = node.built()
    node.npm("ci", "--ignore-scripts", cwd=HERE)
    bundled = client / "build" / "browser" / "measure.js"
    esbuild = str(client / "node_modules" / "esbuild" / "bin" / "esbuild")
    options = ("--bundle", "--format=esm", "--target=es2022", "--log-level=warning")
    node.run(esbuild, str(HERE / "measure.ts"), *options, f"--outfile={bundled}")
    (bundled.parent / "measure.html").write_text('<script src="measure.js" type="module"></script>')
    with serving(bundled.parent) as address, browser() as chromium:
        page = chromium.new_page()
        page.goto(f"{address}/measure.html")
        page.wait_for_function("globalThis.measure !== undefined")
        times = page.evaluate("measure()")
    core = [client / "dist" / name for name in loaded_at_once(client / "dist")]
    whole = [client / "dist" / "client.min.js"]
    theirs = [HERE / "node_modules" / "@divviup" / "dap" / "dist" / "browser.js"]
    sizes = {
        "chaffinch, what every page loads": _compressed(core),
        "chaffinch, all in one file": _compressed(whole),
        "DAP, its file for browsers": _compressed(theirs),
    }
    if "--json" in sys.argv:
        print(json.dumps({"bytes, compressed": sizes, "milliseconds": times}, indent=2))
        return 0
    lines = [Line(name, (size,)) for name, size in sizes.items()]
    print(Finding("Size", ("bytes, compressed",), lines))
    lines = [
        Line(f"{who}: {what}", (round(spent, 3),))
        for who, steps in times.items()
        for what, spent in steps.items()
    ]
    note = f"load average {os.getloadavg()[0]:.1f}; medians of 31 turns"
    print(Finding("Time in Chromium", ("milliseconds",), lines, [note]))
    return 0


def _compressed(files: list[Path]) -> int:
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in files)


if __name__ == "__main__":
    sys.exit(main())
