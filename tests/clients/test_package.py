"""The package as others get it: packed, installed without a network, and used as the guide says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.clients import node
from tests.meta.repository import ROOT

GUIDE = ROOT / "docs" / "guides" / "a-client-in-a-web-page.md"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the package is installed, as the guide says."""
    folder = tmp_path_factory.mktemp("page")
    # Built already: packing would build it again, under the feet of other tests.
    node.npm("pack", "--ignore-scripts", "--pack-destination", str(folder), cwd=node.built())
    (archive,) = folder.glob("*.tgz")
    assert archive.name in GUIDE.read_text("utf-8")
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    node.npm("install", "--offline", "--ignore-scripts", f"./{archive.name}", cwd=folder)
    return folder


def test_only_what_is_needed_is_packed(packed: Path) -> None:
    (archive,) = packed.glob("*.tgz")
    with tarfile.open(archive) as files:
        names = {name.removeprefix("package/") for name in files.getnames()}
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"dist", "package.json", "README.md", "LICENSE"}
    assert {"dist/index.js", "dist/index.d.ts", "dist/node.js", "dist/client.min.js"} <= names
    modules = packed / "node_modules"
    assert [one.name for one in modules.iterdir() if not one.name.startswith(".")] == ["@chaffinch"]


def test_the_program_of_the_guide_has_the_types_of_the_package(packed: Path) -> None:
    (program,) = re.findall(r"```ts\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)
    server = program.replace("within:", 'outbox: fileOutbox("own"), within:')
    imported = 'import { fileOutbox } from "@chaffinch/client/node";\n'
    (packed / "guide.ts").write_text(program)
    (packed / "server.ts").write_text(imported + server)
    # An answer of a type that none has is refused before anything runs.
    (packed / "wrong.ts").write_text(program.replace('report("yes")', "report(() => 1)"))
    usual = {"strict": True, "noEmit": True, "module": "nodenext", "target": "es2022"}
    options = {**usual, "lib": ["es2022", "dom"], "types": []}
    compiler = str(node.built() / "node_modules" / "typescript" / "bin" / "tsc")
    for files, fits in ((["guide.ts", "server.ts"], True), (["wrong.ts"], False)):
        project = {"compilerOptions": options, "files": files}
        (packed / "tsconfig.json").write_text(json.dumps(project))
        if fits:
            node.run(compiler, "-p", ".", cwd=packed)
        else:
            with pytest.raises(AssertionError, match="TS2345"):
                node.run(compiler, "-p", ".", cwd=packed)


def test_both_entries_load_in_node(packed: Path) -> None:
    program = """
        import { createClient, InsecureContext } from "@chaffinch/client";
        import { fileOutbox } from "@chaffinch/client/node";
        const asked = { url: "http://count.example", plan: "0".repeat(64), within: { epsilon: 1, delta: 0 } };
        const fault = await createClient({ ...asked, outbox: fileOutbox("own") }).catch((one) => one);
        console.log(fault instanceof InsecureContext, fault.name);
    """  # noqa: E501 - a program
    (packed / "load.mjs").write_text(program)
    assert node.run("load.mjs", cwd=packed) == "true InsecureContext\n"


def test_the_digest_of_the_guide_is_what_browsers_ask_for(packed: Path) -> None:
    (command,) = re.findall(r"`(openssl [^`]*)`", GUIDE.read_text("utf-8"))
    folder = packed / "node_modules" / "@chaffinch" / "client"
    said = subprocess.run(
        ["sh", "-c", command],  # noqa: S607 - as people type it
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    digest = hashlib.sha384((folder / "dist" / "client.min.js").read_bytes()).digest()
    assert said == base64.b64encode(digest).decode()
