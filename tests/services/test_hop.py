"""The two services of a hop by their command, as an operator runs them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import socket
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from chaffinch.cli import main
from chaffinch.protocols import Flips
from chaffinch.questions import Choice
from chaffinch.shuffling.inbox import SegmentWriter, Upload
from chaffinch.shuffling.state import Sealed, State
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.media_types import REPORTS
from tests import forks
from tests.engines.plans import plan_of
from tests.services.commands import Service, serving, waited
from tests.services.servers import Site, make_site
from tests.tiers import nightly

SETTINGS = """
plans = ["../plan.json"]
keys = "keys"
data = "data"
[collector]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
[collector.limits]
free_bytes = 1
segment_seconds = 0.1
[shuffler]
admin = "127.0.0.1:0"
[shuffler.limits]
interval_seconds = 0.3
openers = 1
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = make_site(tmp_path)
    (tmp_path / "hop1" / "hop.toml").write_text(SETTINGS)
    return site


def counts(service: Service) -> dict[str, int]:
    """What the shuffler has counted; nothing before its first tick."""
    plans = json.loads(service.get("/status"))["plans"]
    return dict(plans[0]["counts"]) if plans else {"durable": 0}


def test_a_port_in_use_is_told_with_what_to_do(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    config = site.folder / "hop1" / "hop.toml"
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        config.write_text(SETTINGS.replace('listen = "127.0.0.1:0"', f'listen = "{taken}"'))
        assert main(["serve", "collector", "--config", str(config)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert taken in said
    assert "hint: another process listens there" in said
    assert "name another port" in said


def test_a_hop_runs_by_its_settings(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    config = site.folder / "hop1" / "hop.toml"
    with serving("collector", config) as collector, serving("shuffler", config) as shuffler:
        assert len(collector.addresses) == 2
        reply = urllib3.request(
            "POST",
            collector.addresses[0] + site.path(),
            body=site.reports(5),
            headers={"content-type": REPORTS},
        )
        assert reply.status == 201
        waited(lambda: counts(shuffler)["durable"] == 5)
        assert counts(shuffler)["rejected"] == 5  # they are of the right form, and do not open
        waited(lambda: "analyzer has shown no keys" in shuffler.get("/readyz"))
        assert "(no connection)" in shuffler.get("/readyz")
        assert "analyzer has shown no keys here" in collector.get("/readyz")
        assert "chaffinch_counts" in shuffler.get("/metrics")
        capfd.readouterr()
        # Beside the service that runs, and waits for keys.
        assert main(["status", "--config", str(config)]) == 1
        shown = capfd.readouterr().out
        assert "adds up" in shown
        assert "DOES NOT" not in shown
        (code, err), (other, _) = shuffler.stop(), collector.stop()
    assert (code, other) == (0, 0)
    events = [json.loads(line)["event"] for line in err.splitlines()]
    assert "started" in events
    assert events[-1] == "stopped"
    assert "tick" in events


def test_the_status_says_what_the_states_of_a_batch_mean(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    hop = site.folder / "hop1"
    path = hop / "data" / "state.sqlite"
    with closing(State.open(path)) as state, state.changing() as change:
        for first in "abc":
            change.add_batch(Sealed(first * 64, site.plan.id, 1, 4, 8))
        change.acknowledge("b" * 64, b"receipt")
        change.acknowledge("c" * 64, b"receipt")
        change.mark_purged("c" * 64)
    assert main(["status", "--config", str(hop / "hop.toml")]) == 1, "nobody has shown keys"
    lines = [" ".join(line.split()) for line in capfd.readouterr().out.splitlines()]
    assert "batches sealed made, and not at the next party yet 1" in lines
    assert "batches acknowledged at the next party, by its receipt 1" in lines
    assert "batches purged at the next party, and removed here 1" in lines


def test_a_hop_runs_several_plans(site: Site) -> None:
    assert site.plan.parties is not None
    question = ("other", Choice(["x", "y"]), Flips(Fraction(1, 4), 1, 2))
    other = plan_of(question, users=3).run_by(site.plan.parties)
    other.save(site.folder / "other.json")
    config = site.folder / "hop1" / "hop.toml"
    text = SETTINGS.replace('["../plan.json"]', '["../plan.json", "../other.json"]')
    config.write_text(text)
    with serving("collector", config) as collector:
        for plan in (site.plan, other):
            address = f"{collector.addresses[0]}/v1/plans/{plan.id}"
            assert json.loads(urllib3.request("GET", address).data)["id"] == plan.id
            keys = urllib3.request("GET", f"{address}/keys").data
            identity = bytes.fromhex(site.keys["hop1"].identity_hex)
            KeyList.read(keys, plan_id=plan.id, identity=identity)
    config.write_text(text.replace("other.json", "plan.json"))
    assert main(["serve", "collector", "--config", str(config)]) == 2


@pytest.mark.parametrize("role", ["collector", "shuffler"])
def test_a_hop_with_the_keys_of_the_analyzer_is_refused(site: Site, role: str) -> None:
    config = site.folder / "hop1" / "hop.toml"
    config.write_text(SETTINGS.replace('keys = "keys"', 'keys = "../analyzer/keys"'))
    words = ["serve", role, "--config", config]
    started = forks.run(forks.COMMAND, *words, timeout=60)  # it would run on if it started
    assert started.returncode == 2
    assert "names this party as a hop" in started.stderr


def test_an_operator_sees_why_nothing_leaves(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    config = site.folder / "hop1" / "hop.toml"
    assert main(["status", "--config", str(config)]) == 1, "nobody has shown keys"
    shown = " ".join(capfd.readouterr().out.split())
    assert f"0 reports in the pool. A batch leaves at a tick, with {site.plan.reports:,}" in shown
    assert "had not given out" not in shown
    path = config.parent / "data" / "state.sqlite"
    with closing(State.open(path)) as state, state.changing() as change:
        change.count(site.plan.id, {"durable": 3, "not_given_out": 2, "malformed": 1})
    assert main(["status", "--config", str(config)]) == 1
    shown = " ".join(capfd.readouterr().out.split())
    assert "rejected adds up 3 undecryptable cannot be decrypted 0 malformed no reports of" in shown
    assert "not given out sealed for keys that this hop gave to nobody 2" in shown
    assert "2 reports rejected for keys that this hop had not given out." in shown
    config.write_text(SETTINGS.replace("free_bytes = 1", "free_bytes = 1000000000000000"))
    assert main(["status", "--config", str(config)]) == 1
    assert "too little room on the disk" in capfd.readouterr().out


def test_what_arrived_just_now_is_in_an_unopened_segment(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["status", "--config", str(site.folder / "hop1" / "hop.toml")]
    main(words)
    shown = " ".join(capfd.readouterr().out.split())
    assert "Unopened segments: 0." in shown
    assert "New reports" not in shown
    inbox = site.folder / "hop1" / "data" / "inbox"
    inbox.mkdir(parents=True)
    writer = SegmentWriter(inbox)
    for expected in (1, 2):
        writer.append([Upload(site.plan.id, 1, site.reports(5))])
        main(words)
        shown = " ".join(capfd.readouterr().out.split())
        assert f"Unopened segments: {expected}." in shown
        assert "New reports are in segments that are not opened yet" in shown
        writer.seal()


def test_counts_that_do_not_add_up_end_with_code_1(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    from chaffinch.shuffling.state import State

    config = site.folder / "hop1" / "hop.toml"
    assert main(["status", "--config", str(config), "--json"]) == 1  # it has never run
    assert json.loads(capfd.readouterr().out)["adds_up"] is True
    state = State.open(site.folder / "hop1" / "data" / "state.sqlite")
    with state.changing() as change:
        change.count(site.plan.id, {"durable": 1})
    state.close()
    capfd.readouterr()
    assert main(["status", "--config", str(config)]) == 1
    assert "DOES NOT ADD UP" in capfd.readouterr().out
    assert main(["status", "--config", str(config), "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["adds_up"] is False


@pytest.mark.parametrize("role", ["collector", "shuffler"])
def test_a_service_of_somebody_else_is_refused(
    site: Site, role: str, capfd: pytest.CaptureFixture[str]
) -> None:
    config = site.folder / "analyzer" / "hop.toml"
    config.write_text(SETTINGS)
    (site.folder / "plan.json").unlink()
    make_site(site.folder / "other").plan.save(site.folder / "plan.json")
    assert main(["serve", role, "--config", str(config)]) == 2
    assert "names this party" in capfd.readouterr().err


def test_the_example_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    from chaffinch.services.hop import EXAMPLE

    assert main(["serve", "collector", "--example"]) == 0
    assert capfd.readouterr().out == EXAMPLE
    assert main(["serve", "shuffler", "--example", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"example": EXAMPLE}
    assert main(["serve", "analyzer", "--example"]) == 0
    assert "[analyzer.budget]" in capfd.readouterr().out
    assert main(["serve", "shuffler"]) == 2
    assert "--example" in capfd.readouterr().err


def test_a_disk_with_too_little_room_is_told(site: Site) -> None:
    config = site.folder / "hop1" / "hop.toml"
    config.write_text(SETTINGS.replace("free_bytes = 1\n", f"free_bytes = {1 << 59}\n"))
    with serving("collector", config) as collector:
        waited(lambda: "too little room on the disk\n" in collector.get("/readyz"))
        assert collector.get("/healthz") == "ok\n"


def test_a_service_speaks_tls_by_its_settings(site: Site) -> None:
    folder = site.folder / "hop1"
    make_certificate(folder)
    tls = '[collector.tls]\ncertificate = "certificate.pem"\nprivate_key = "private-key.pem"\n'
    (folder / "hop.toml").write_text(SETTINGS.replace("[shuffler]\n", f"{tls}[shuffler]\n"))
    with serving("collector", folder / "hop.toml") as collector:
        address, admin = collector.addresses
        assert address.startswith("https://")
        assert admin.startswith("http://")
        trusting = urllib3.PoolManager(ca_certs=str(folder / "certificate.pem"))
        reply = trusting.request("GET", f"{address}/v1/plans/{site.plan.id}")
        assert reply.data == (site.folder / "plan.json").read_bytes()
        with pytest.raises(urllib3.exceptions.MaxRetryError, match="certificate verify failed"):
            urllib3.PoolManager(retries=0).request("GET", address)


def make_certificate(folder: Path) -> None:
    """Write a certificate that this machine signs for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(Encoding.PEM))
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "private-key.pem").write_bytes(key.private_bytes(*form))


def test_a_service_that_cannot_work_ends(site: Site) -> None:
    from chaffinch.shuffling.state import State

    config = site.folder / "hop1" / "hop.toml"
    owner = State.open(site.folder / "hop1" / "data" / "state.sqlite")
    try:
        hasty = "from chaffinch.disk import stores\nstores._OWNER_PATIENCE = 0.3\n"
        words = ("serve", "shuffler", "--config", str(config), "--json")
        done = forks.run(hasty + forks.COMMAND, *words, timeout=60)
    finally:
        owner.close()
    assert (done.returncode, done.stdout) == (5, ""), "nobody is told that it has started"
    last = json.loads(done.stderr.splitlines()[-1])
    assert last["event"] == "failed"
    assert "another process owns" in last["said"]


def test_a_hop_starts_without_what_it_never_uses() -> None:
    """Special functions alone take longer to load than all the rest."""
    program = (
        "import sys\nimport chaffinch.services.hop, chaffinch.encoding.client\n"
        "print(*{'scipy', 'matplotlib', 'pandas', 'pyspark'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("missing", ["httptools", nightly("uvloop"), nightly("prometheus_client")])
def test_without_the_extra_the_hint_says_how_to_install_it(missing: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from chaffinch.cli import main\n"
        "sys.exit(main(['serve', 'collector', '--config', 'hop.toml']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install '.[services]'" in done.stderr
