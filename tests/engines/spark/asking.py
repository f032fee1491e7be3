"""A stranger who asks an application on one machine for a block, as a program.

What is asked is what one of Spark's machines asks another: to open a block, of which it then gets
the bytes. Whoever is not known to the application gets none.
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path
from typing import Any

from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.session import running

REQUEST, GRANTED = 3, 4
LISTENING = "0A"
LOOPBACK = "0100007F"
BLOCK = "broadcast_0_piece0"


def text(words: str) -> bytes:
    return struct.pack(">i", len(words)) + words.encode()


def answer(port: int) -> int:
    """Return of which kind the answer is to a stranger who asks for a block."""
    body = bytes(1) + text("somebody") + text("driver") + struct.pack(">i", 1) + text(BLOCK)
    head = struct.pack(">BqI", REQUEST, 1, len(body))
    with socket.create_connection(("127.0.0.1", port), 60) as asked, asked.makefile("rb") as said:
        asked.sendall(struct.pack(">q", 8 + len(head) + len(body)) + head + body)
        return said.read(9)[8]


def listening(process: int) -> set[tuple[str, int]]:
    """Return where a process listens: the address as the system writes it, and the port."""
    files = [str(one.readlink()) for one in Path(f"/proc/{process}/fd").iterdir()]
    found = set()
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{kind}").read_text("utf-8").splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING and f"socket:[{words[9]}]" in files:
                host, port = words[1].split(":")
                found.add((host, int(port, 16)))
    return found


def main() -> None:
    with running("local[1]") as context, Job(context):
        gateway: Any = context._gateway  # noqa: SLF001 - which process is Java
        found = listening(gateway.proc.pid)
        apart = {
            gateway.gateway_parameters.port,
            int(context.getConf().get("spark.driver.port", "0")),
        }
        (blocks,) = {port for _, port in found} - apart
        near = all(host.endswith(LOOPBACK) for host, _ in found)
        sys.stdout.write(f"{near} {answer(blocks) == GRANTED}\n")


if __name__ == "__main__":
    main()
