"""A service that speaks TLS by itself, and addresses that cannot be listened on."""

from __future__ import annotations

import datetime as dt
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput
from chaffinch.services.http import Application
from chaffinch.services.server import Listener, run
from chaffinch.wire import media_types
from chaffinch.wire.exchange import Exchange, NoReply
from tests.forks import Forked
from tests.services.commands import waited
from tests.services.servers import COLLECTOR, collecting, make_site


def _certificate(folder: Path) -> dict[str, str]:
    """Return the files of a certificate for this machine that nobody else has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = {name: folder / f"{name}.pem" for name in ("certificate", "private_key")}
    files["certificate"].write_bytes(made.public_bytes(Encoding.PEM))
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files["private_key"].write_bytes(key.private_bytes(*form))
    return {name: str(path) for name, path in files.items()}


def test_who_does_not_agree_on_tls_is_hung_up_on(tmp_path: Path) -> None:
    site, files = make_site(tmp_path), _certificate(tmp_path)
    chosen = {"tls": files, "server": {"patience_seconds": 0.5}}
    with (
        collecting(site, chosen) as service,
        socket.create_connection(("127.0.0.1", service.port), 10) as connection,
    ):
        assert connection.recv(1) == b""


def test_who_does_not_agree_on_tls_uses_up_no_files(tmp_path: Path) -> None:
    """Otherwise a collector whose system allows few of them cannot open its own, and ends."""
    site, files = make_site(tmp_path), _certificate(tmp_path)
    program = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))\n"
    chosen = {"tls": files, "server": {"patience_seconds": 2.0}}
    context = ssl.create_default_context(cafile=files["certificate"])

    def send() -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", service.port, context=context)
        headers = {"content-type": media_types.REPORTS}
        connection.request("POST", site.path(), site.reports(1), headers)
        status = connection.getresponse().status
        connection.close()
        return status

    with collecting(site, chosen, program=program + COLLECTOR) as service:
        assert send() == 201
        held = [socket.create_connection(("127.0.0.1", service.port), 10) for _ in range(700)]
        time.sleep(1.0)  # Segments are sealed, and keys are read meanwhile.
        opened = len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
        assert opened < 400, "some are left for its own"
        time.sleep(2.5)  # Their time is over.
        assert send() == 201
        for one in held:
            one.close()
        code, _, err = service.stop()
    assert (code, err) == (0, "")


def test_reports_come_through_tls(tmp_path: Path) -> None:
    site, files = make_site(tmp_path), _certificate(tmp_path)
    with collecting(site, {"tls": files}) as service:
        context = ssl.create_default_context(cafile=files["certificate"])
        connection = http.client.HTTPSConnection("127.0.0.1", service.port, context=context)
        for _ in range(3):
            headers = {"content-type": media_types.REPORTS}
            connection.request("POST", site.path(), site.reports(1), headers)
            reply = connection.getresponse()
            reply.read()
            assert reply.status == 201
        connection.close()
        stranger = http.client.HTTPSConnection(
            "127.0.0.1", service.port, context=ssl.create_default_context()
        )
        with pytest.raises(ssl.SSLCertVerificationError):
            stranger.request("GET", "/")
        assert b"HTTP/1.1 2" not in service.raw(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        code, _, err = service.stop()
    assert (code, err) == (0, "")
    assert site.numbers() == [0, 0, 0]


def test_an_idle_connection_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    """Its owner looks at it with its next request, and answers nothing before."""
    site, files = make_site(tmp_path), _certificate(tmp_path)
    context = ssl.create_default_context(cafile=files["certificate"])
    with collecting(site, {"tls": files}) as service:
        connection = http.client.HTTPSConnection("127.0.0.1", service.port, context=context)
        connection.request("GET", f"/v1/plans/{site.plan.id}")
        assert connection.getresponse().read()
        start = time.monotonic()
        code, _, err = service.stop()
        assert time.monotonic() - start < 5
        connection.close()
    assert (code, err) == (0, "")


LONG_ANSWERS = """
import sys
from pathlib import Path
from chaffinch.services.connections import Limits
from chaffinch.services.http import Response
from chaffinch.services.server import Listener, run

async def answer(request):
    return Response(200, bytes(2 << 20))

files = [Path(one) for one in sys.argv[1:]]
limits = Limits(patience_seconds=1.5, idle_seconds=1.5)
listener = Listener(answer, "127.0.0.1", 0, *files)
run([listener], limits=limits, announce=lambda found: print(*found, flush=True))
"""


def _answering(files: dict[str, str]) -> tuple[Forked, ssl.SSLSocket]:
    """Return a service whose answers are long, and a connection to it that has asked for one."""
    process = Forked(LONG_ANSWERS, files["certificate"], files["private_key"])
    port = int(process.stdout.readline().rpartition(":")[2])
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    plain.settimeout(20)
    plain.connect(("127.0.0.1", port))
    context = ssl.create_default_context(cafile=files["certificate"])
    line = context.wrap_socket(plain, server_hostname="127.0.0.1")
    line.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    return process, line


def test_who_reads_slowly_through_tls_gets_all_of_an_answer(tmp_path: Path) -> None:
    process, line = _answering(_certificate(tmp_path))
    try:
        found = 0
        while block := line.recv(1 << 15):
            found += len(block)
            time.sleep(len(block) / (400 << 10))
        assert found > 2 << 20
    finally:
        line.close()
        process.kill()
        process.communicate()


def test_who_reads_nothing_through_tls_is_hung_up_on(tmp_path: Path) -> None:
    process, line = _answering(_certificate(tmp_path))
    try:

        def sockets() -> int:
            files = Path(f"/proc/{process.pid}/fd").iterdir()
            return sum(
                str(file.readlink()).startswith("socket:") for file in files if file.is_symlink()
            )

        before = sockets()
        waited(lambda: sockets() < before, seconds=15)
    finally:
        line.close()
        process.kill()
        process.communicate()


def test_a_reply_through_tls_that_is_not_whole_in_time_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads when the time is over finds a connection that has ended, and nothing else."""
    files, read = _certificate(tmp_path), ssl.SSLSocket.read

    def slowly(line: ssl.SSLSocket, *given: Any) -> Any:
        time.sleep(0.7)
        return read(line, *given)

    monkeypatch.setattr(ssl.SSLSocket, "read", slowly)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["certificate"], files["private_key"])
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with context.wrap_socket(server.accept()[0], server_side=True) as line:
                line.recv(1 << 16)
                line.sendall(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\na")
                line.recv(1 << 16)

        threading.Thread(target=serve, daemon=True).start()
        asking = Exchange(reply_seconds=1.0, trusted=Path(files["certificate"]))
        with pytest.raises(NoReply, match="no whole reply in time"):
            asking.ask("GET", f"https://127.0.0.1:{server.getsockname()[1]}/x", most=10)


def test_a_certificate_must_have_its_key(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = _certificate(tmp_path), _certificate(tmp_path / "other")
    pairs: list[tuple[str, str, type[ChaffinchError]]] = [
        (one["certificate"], other["private_key"], InvalidFile),
        (one["private_key"], one["certificate"], InvalidFile),
        (str(tmp_path / "nothing"), one["private_key"], ChaffinchError),
    ]
    for certificate, private_key, fault in pairs:
        listener = Listener(
            Application({}), certificate=Path(certificate), private_key=Path(private_key)
        )
        with pytest.raises(fault):
            run([listener])


def test_an_address_that_is_taken_or_not_ours_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for host, number in [("127.0.0.1", port), ("192.0.2.1", 0), ("127.0.0.1", 70_000)]:
            with pytest.raises(InvalidInput, match="listen"):
                run([Listener(Application({}), host, number)])


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_roots_that_are_none_are_refused_before_anybody_is_blamed(
    tmp_path: Path, content: bytes | None
) -> None:
    place = tmp_path / "roots.pem"
    if content is not None:
        place.write_bytes(content)
    with pytest.raises(ChaffinchError, match=r"roots\.pem"):
        Exchange(trusted=place)
