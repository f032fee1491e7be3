"""The page of the architecture: its picture is that of the contracts, and its files exist."""

from __future__ import annotations

import re

from tests.docs import architecture
from tests.meta import repository


def test_the_picture_is_that_of_the_import_contracts() -> None:
    assert architecture.PAGE.read_text(encoding="utf-8") == architecture.made(), "run `make docs`"


def test_every_file_on_the_page_exists() -> None:
    text = architecture.PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)`", text)
    missing = [name for name in named if not (repository.SOURCE / name).exists()]
    assert len(named) > 50
    assert not missing


def test_every_room_is_walked_through_or_explained() -> None:
    text = architecture.PAGE.read_text(encoding="utf-8")
    rooms = {room for layer in architecture.layers("chaffinch") for room in layer}
    assert rooms <= set(re.findall(r"`(\w+)", text))
