"""Publishers: the right columns, exactly the planned flips, and nothing else that leaves."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from chaffinch.errors import ChaffinchError, GuaranteeNotProven, InvalidInput, InvalidTable
from chaffinch.ledger import Ledger
from chaffinch.privacy import Target
from chaffinch.reach.planning.id_rule import Likeness
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.charging import hand_out, refuse_second
from chaffinch.reach.publisher.filter_making import Loaded, _true_rows
from chaffinch.reach.publisher.ids import IdReader
from chaffinch.tables.read import open_table
from chaffinch.wire.filter_files import Filter, load_filter
from tests.cases import each_case
from tests.reach.publishing import KEY, SECRET, brute_force, encode, set_bits, small_plan

ALARM = 1e-7
"""The chance that one comparison fails though the law holds; a test makes three at most."""
Row = NDArray[np.uint64]


def unflipped(source: Any, plan: ReachPlan, key: CampaignKey = KEY, **options: Any) -> list[Row]:
    first, further = key.hash_keys(plan.id)
    most = plan.audience.frequencies
    reader = IdReader(open_table(source), key=first, most=most, **options)
    return _true_rows(reader, plan, further)[0]


def flips(found: Filter, source: Any, plan: ReachPlan) -> list[NDArray[np.uint8]]:
    """Return which bits of each row were flipped."""
    rows = zip(found.rows, unflipped(source, plan), strict=True)
    return [bits_of(one ^ other, plan.bits) for one, other in rows]


def bits_of(row: Row, count: int) -> NDArray[np.uint8]:
    return np.unpackbits(row.astype("<u8").view(np.uint8), bitorder="little")[:count]


def surprise(count: int, trials: int, chance: float) -> float:
    """Return the two-sided chance of a count as far off as this one, under a binomial law."""
    law = stats.binom(trials, chance)
    return float(min(1.0, 2 * min(law.cdf(count), law.sf(count - 1))))


# ------------------------------------------------------------------------------ columns


ids = st.one_of(st.integers(0, 9).map(str), st.text(min_size=1, max_size=12))


@given(
    st.lists(ids, min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([256, 512, 1024]),
)
def test_the_rows_before_flips_are_those_of_brute_force(
    texts: list[str], frequencies: int, hashes: int, bits: int
) -> None:
    plan = small_plan(frequencies=frequencies, hashes=hashes, bits=bits)
    rows = unflipped(texts, plan)
    assert [set_bits(row) for row in rows] == brute_force(
        [text.encode() for text in texts], plan, KEY
    )


def test_the_brute_force_catches_a_wrong_key() -> None:
    plan = small_plan(bits=4096, hashes=2)
    other = CampaignKey(bytes(32))
    assert set_bits(unflipped(["a"], plan)[0]) != brute_force([b"a"], plan, other)[0]


def test_many_batches_are_one_audience() -> None:
    plan = small_plan(frequencies=3, bits=1 << 20)
    seen = np.concatenate([np.arange(100_000), np.arange(50_000), np.arange(1000)])
    rows = unflipped(seen, plan)
    for row, count in zip(rows, (100_000, 50_000, 1000), strict=True):
        assert (row == unflipped(np.arange(count), plan)[0]).all()


@given(st.dictionaries(ids, st.integers(1, 7), min_size=1, max_size=20), st.integers(1, 4))
def test_counts_are_the_same_as_so_many_rows(views: dict[str, int], frequencies: int) -> None:
    plan = small_plan(frequencies=frequencies, bits=512)
    table = {"id": list(views), "views": list(views.values())}
    repeated = [text for text, times in views.items() for _ in range(times)]
    for one, other in zip(
        unflipped(table, plan, counts="views"), unflipped(repeated, plan), strict=True
    ):
        assert (one == other).all()


def test_an_audience_is_the_same_in_any_order_and_any_form() -> None:
    plan = small_plan(bits=1 << 17)
    numbers = np.arange(5000)
    wanted = unflipped(numbers, plan)[0]
    text = "id\n" + "".join(f"{number}\n" for number in numbers[::-1])
    csv = unflipped(open_csv(text), plan)[0]
    assert (csv == wanted).all()
    shuffled = pa.table({"id": pa.array(np.random.default_rng(1).permutation(numbers), pa.int32())})
    assert (unflipped(shuffled, plan)[0] == wanted).all()


def open_csv(text: str) -> Any:
    file = io.BytesIO(text.encode())
    file.name = "ids.csv"
    return file


@pytest.mark.parametrize("other", ["key", "plan"])
def test_another_key_or_plan_gives_columns_that_tell_nothing(other: str) -> None:
    # Of two random sets of columns the overlap is hypergeometric; ids that kept their columns
    # would share all of them.
    plan = small_plan(bits=1 << 17)
    key = CampaignKey(bytes(32)) if other == "key" else KEY
    second = small_plan(bits=1 << 17, title="another") if other == "plan" else plan
    numbers = np.arange(20_000)
    one = set_bits(unflipped(numbers, plan)[0])
    two = set_bits(unflipped(numbers, second, key)[0])
    law = stats.hypergeom(plan.bits, len(one), len(two))
    chance = 2 * min(law.cdf(len(one & two)), law.sf(len(one & two) - 1))
    assert chance > ALARM
    slightly_alike = len(one & two) + len(one) // 10
    assert 2 * law.sf(slightly_alike - 1) < ALARM


# ------------------------------------------------------------------------------ flips


@pytest.mark.parametrize("flip", [Fraction(1, 4), Fraction(1, 64), Fraction(2**62 + 1, 2**64)])
def test_every_bit_is_flipped_with_the_planned_chance(flip: Fraction) -> None:
    plan = small_plan(["daily"], bits=1 << 22, flip=flip)
    source = np.arange(1_000_000)
    (flipped,) = flips(encode(source, plan, publisher="daily", key=KEY), source, plan)
    held = bits_of(unflipped(source, plan)[0], plan.bits).astype(np.bool_)
    for some in (flipped, flipped[held], flipped[~held]):
        count = int(some.sum())
        assert surprise(count, len(some), float(flip)) > ALARM
        assert surprise(count, len(some), 1.1 * float(flip)) < ALARM


def test_rows_are_flipped_independently_of_one_another() -> None:
    plan = small_plan(["daily"], frequencies=2, bits=1 << 20)
    source = np.arange(1000)
    first, second = flips(encode(source, plan, publisher="daily", key=KEY), source, plan)
    again, _ = flips(encode(source, plan, publisher="daily", key=KEY), source, plan)
    for one, other in ((first, second), (first, again), (first[:-1], first[1:])):
        both = int((one & other).sum())
        assert surprise(both, len(one), 1 / 16) > ALARM
        assert surprise(both, len(one), 1.1 / 16) < ALARM


# ------------------------------------------------------------------------------ the filter


def test_a_filter_says_what_it_belongs_to() -> None:
    plan = small_plan(frequencies=2)
    found = encode(["a", "b"], plan, publisher="radio", key=KEY)
    assert (found.plan_id, found.publisher, found.bits) == (plan.id, "radio", 1024)
    assert found.key == KEY.fingerprint(plan.id)
    assert found.frequencies == 2
    assert not any(row.flags.writeable for row in found.rows)


def test_every_encoding_has_a_name_of_its_own() -> None:
    plan = small_plan()
    names = {encode(["a"], plan, publisher="daily", key=KEY).batch for _ in range(20)}
    assert len(names) == 20


def test_a_file_does_not_tell_how_many_ids_went_in(tmp_path: Path) -> None:
    plan = small_plan()
    sizes = set()
    for count in (1, 10, 900):
        path = tmp_path / f"{count}.filter"
        encode(np.arange(count), plan, publisher="daily", key=KEY).save(path)
        sizes.add(path.stat().st_size)
        facts = json.loads(path.read_bytes().split(b"\n")[1])
    assert len(sizes) == 1
    assert set(facts) == {"plan_id", "publisher", "key", "batch", "bits", "rows", "sha256"}


def test_neither_ids_nor_keys_leave(tmp_path: Path) -> None:
    plan = small_plan(hashes=2, frequencies=2)
    canary = "canary-id-0123456789"
    found = encode([canary] * 3, plan, publisher="daily", key=KEY)
    found.save(tmp_path / "daily.filter")
    content = (tmp_path / "daily.filter").read_bytes() + repr(found).encode()
    secrets = [SECRET, canary.encode(), *KEY.hash_keys(plan.id)]
    for secret in secrets:
        assert secret not in content
        assert secret.hex().encode() not in content


FAULTS: dict[str, dict[str, Any]] = {
    "a gap": {"source": ["canary", None]},
    "floats": {"source": [1.5]},
    "several columns": {"source": {"a": ["canary"], "b": ["canary"]}},
    "a wrong count": {"source": {"a": ["canary"], "b": ["canary"]}, "counts": "b"},
    "an unknown publisher": {"publisher": "web"},
    "no key": {"key": SECRET},
    "no plan": {"plan": "plan.json"},
    "no rows": {"source": []},
    "no file": {"source": "nowhere.csv"},
    "no way to treat gaps": {"missing": "drop"},
    "a promise too weak": {"within": Target(0.1, 1e-9)},
}


@each_case("fault", FAULTS)
def test_faults_are_clear_and_show_nothing_private(fault: str) -> None:
    usual: dict[str, Any] = {
        "source": ["canary"],
        "plan": small_plan(),
        "publisher": "daily",
        "key": KEY,
    }
    with pytest.raises(ChaffinchError) as caught:
        encode(**(usual | FAULTS[fault]))
    shown = f"{caught.value} {caught.value!r} {caught.value.details}"
    assert "canary" not in shown
    assert SECRET.hex() not in shown


def test_a_plan_that_promises_too_much_is_not_used() -> None:
    # Without a verified plan nothing is read: the file is not there.
    plan = replace(small_plan(), epsilon=0.01)
    with pytest.raises(GuaranteeNotProven):
        encode("nowhere.csv", plan, publisher="daily", key=KEY)


def test_gaps_can_be_skipped_but_something_must_be_left() -> None:
    plan = small_plan(bits=4096)
    some = unflipped(["a", None, ""], plan, missing="skip")[0]
    assert (some == unflipped(["a"], plan)[0]).all()
    with pytest.raises(InvalidTable, match="at least one id"):
        encode([None, ""], plan, publisher="daily", key=KEY, missing="skip")


def test_the_publisher_is_one_of_the_plan() -> None:
    with pytest.raises(InvalidInput, match="'daily', 'radio'"):
        encode(["a"], small_plan(), publisher="web", key=KEY)


def test_progress_is_told_in_rows() -> None:
    told: list[tuple[int, int | None]] = []

    def progress(done: int, total: int | None) -> None:
        told.append((done, total))

    plan = small_plan(bits=1 << 18)
    encode(np.arange(150_000), plan, publisher="daily", key=KEY, progress=progress)
    assert told == [(65_536, 150_000), (131_072, 150_000), (150_000, 150_000)]
    told.clear()
    encode(open_csv("id\na\nb\n"), plan, publisher="daily", key=KEY, progress=progress)
    assert told == [(2, None)]


def test_a_ledger_remembers_which_keys_made_a_filter(tmp_path: Path) -> None:
    plan = small_plan(["daily"], bits=1 << 16, flip=Fraction(1, 64))
    cap = Target(epsilon=50, delta=1e-3)
    ledger = Ledger.create(tmp_path / "l", role="client", cap=cap, mark=tmp_path / "m")
    refuse_second(plan, KEY, "daily", ledger)
    made, again = (encode(["a"], plan, publisher="daily", key=KEY) for _ in range(2))
    occasion = hand_out(made, plan, tmp_path / "daily.filter", ledger)
    (entry,) = ledger.entries()
    assert (entry.subject, entry.key, occasion) == (made.digest, occasion, f"{made.key}/daily")
    assert load_filter(tmp_path / "daily.filter").batch == made.batch
    with pytest.raises(InvalidInput, match=f"SHA-256 {made.digest[:8]}"):
        refuse_second(plan, KEY, "daily", ledger)
    with pytest.raises(InvalidInput):
        hand_out(again, plan, tmp_path / "again.filter", ledger)
    assert not list(tmp_path.glob("again*"))
    assert len(ledger.entries()) == 1


def test_a_filter_is_not_handed_out_over_what_cannot_be_made_again(tmp_path: Path) -> None:
    plan = small_plan(["daily"], bits=1 << 16, flip=Fraction(1, 64))
    cap = Target(epsilon=50, delta=1e-3)
    ledger = Ledger.create(tmp_path / "l", role="client", cap=cap, mark=tmp_path / "m")
    made, other = (encode(["a"], plan, publisher="daily", key=KEY) for _ in range(2))
    KEY.save(tmp_path / "key")
    plan.save(tmp_path / "plan")
    other.save(tmp_path / "other.filter")
    for name in ("key", "plan", "l", "m", "other.filter"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InvalidInput, match="output"):
            hand_out(made, plan, tmp_path / name, ledger)
        assert (tmp_path / name).read_bytes() == before
    assert ledger.entries() == ()
    for _ in range(2):  # the same filter again is in its place already
        hand_out(made, plan, tmp_path / "daily.filter", ledger)
    assert len(ledger.entries()) == 1


def test_a_key_is_a_campaign_key() -> None:
    with pytest.raises(InvalidInput, match="a CampaignKey"):
        encode(["a"], small_plan(), publisher="daily", key=SECRET)  # type: ignore[arg-type]


def test_a_publisher_learns_what_went_in() -> None:
    told: list[Loaded] = []
    plan = small_plan(bits=1 << 16)
    encode(["a", "b", None], plan, publisher="daily", key=KEY, missing="skip", told=told.append)
    assert told == [Loaded(3, 2, 100, missing=1, likeness=Likeness(ids=2))]
    assert told[0].surprising
