"""A whole collection on this machine, whose people answer on a web page of another origin.

Makes a plan, starts the first hop, the shuffler and the analyzer, and serves the page. When enough
people have answered, it prints the release and ends. Each browser profile is a person: private
windows, other browsers and other devices are other people.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import chaffinch as cf
from chaffinch.services import rehearsal

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "clients" / "typescript" / "dist" / "client.min.js"


def page(folder: Path, client: Path, plan: cf.Plan, hop: str) -> Path:
    """Return a folder with the page of a plan, and the client beside it."""
    made = folder / "page"
    made.mkdir()
    text = (HERE / "index.html").read_text("utf-8")
    limits = {"EPSILON": repr(plan.epsilon), "DELTA": repr(plan.delta)}
    said = {"HOP": hop, "PLAN": plan.id, **limits}
    for word, value in said.items():
        text = text.replace(word, value)
    (made / "index.html").write_text(text, "utf-8")
    for name in ("page.js", "page.css"):
        shutil.copy(HERE / name, made)
    shutil.copy(client, made / "client.js")
    return made


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing about who asks."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    """Run the collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=3)
    parser.add_argument("--client", type=Path, default=CLIENT, help="the client in one file")
    parser.add_argument("--port", type=int, default=0, help="of the page; any free one without it")
    options = parser.parse_args()
    target = cf.Target(epsilon=3.0, delta=1e-6)
    plan = cf.plan(cf.Bit(), users=options.people, target=target, max_messages=1)
    with tempfile.TemporaryDirectory() as name:
        stage = rehearsal.set_stage(Path(name) / "parties", plan)
        files = page(Path(name), options.client, stage.plan, stage.parties.hops[0].address)
        handler = partial(Quiet, directory=str(files))
        server = ThreadingHTTPServer(("127.0.0.1", options.port), handler)
        with rehearsal.running(stage), server:
            Thread(target=server.serve_forever, daemon=True).start()
            print(f"http://127.0.0.1:{server.server_port}/", flush=True)
            (release, *_) = rehearsal.wait_for_release(stage, patience=float("inf"))
            server.shutdown()
    print(json.dumps(json.loads(release), indent=2))


if __name__ == "__main__":
    main()
