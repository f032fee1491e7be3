"""Plans in which some people may lie: what is promised, against the chances themselves.

Every chance is computed here from its definition, with whole numbers; nothing of the library's
bound is used for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch import privacy
from chaffinch.errors import BatchTooSmall, GuaranteeNotProven, InvalidFile, InvalidInput
from chaffinch.ledger.charge import Charge, charge_from
from chaffinch.planning.survey_file import survey_from
from chaffinch.plans.honest_share import HonestShare, honest_share, needed_reports
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from chaffinch.protocols import Flips
from chaffinch.runs.asked import fits_survey
from chaffinch.wire.documents import identified

NINE_TENTHS = HonestShare(Fraction(9, 10))
TARGET = cf.Target(1.0, 1e-6)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cf.plan(cf.Bit(), users=1_000, target=TARGET, max_messages=1, honest=0.9, title="tea")


# ----------------------------------------------------------------------------
# The chances, from what they are.


@cache
def binomial_tail(trials: int, most: int, share: Fraction) -> Fraction:
    """Return P[Bin(trials, share) <= most] exactly."""
    hit, miss = share.numerator, share.denominator - share.numerator
    ways = sum(
        math.comb(trials, k) * hit**k * miss ** (trials - k) for k in range(min(most, trials) + 1)
    )
    return Fraction(ways, share.denominator**trials)


def hypergeometric_tail(people: int, honest: int, drawn: int, most: int) -> Fraction:
    """Return the chance of at most ``most`` honest ones among those who are drawn."""
    ways = sum(
        math.comb(honest, k) * math.comb(people - honest, drawn - k)
        for k in range(max(0, drawn - people + honest), min(most, drawn) + 1)
    )
    return Fraction(ways, math.comb(people, drawn))


def law_of_sum(ones: int, zeros: int, flip: Fraction) -> list[Fraction]:
    """Return the law of the sum of flipped bits."""
    law = [Fraction(1)]
    for chance in [1 - flip] * ones + [flip] * zeros:
        law = [
            (law[k] * (1 - chance) if k < len(law) else Fraction(0))
            + (law[k - 1] * chance if k else 0)
            for k in range(len(law) + 1)
        ]
    return law


def hockey_stick(p: Sequence[Fraction], q: Sequence[Fraction], growth: Fraction) -> Fraction:
    return max(
        sum((max(Fraction(0), a - growth * b) for a, b in zip(one, other, strict=True)), Fraction())
        for one, other in ((p, q), (q, p))
    )


@cache
def delta_of(ones: int, zeros: int, flip: Fraction, growth: Fraction) -> Fraction:
    """Return the delta of a bit among so many honest others."""
    views = [law_of_sum(ones + bit, zeros + 1 - bit, flip) for bit in (0, 1)]
    return hockey_stick(views[0], views[1], growth)


def worst_delta(users: int, flip: Fraction, growth: Fraction) -> Fraction:
    return max(delta_of(ones, users - 1 - ones, flip, growth) for ones in range(users))


# ----------------------------------------------------------------------------
# The bound.


def test_the_shortfall_is_never_below_the_exact_chance_and_not_far_above() -> None:
    for users, share, more in (
        (2, Fraction(9, 10), (0, 1, 4)),
        (3, Fraction(1, 1000), (0, 2000, 6000)),
        (10, Fraction(1, 2), (0, 5, 20, 60)),
        (200, Fraction(999, 1000), (0, 2, 9)),
        (1_000, Fraction(9, 10), (0, 40, 73, 78, 150)),
        (1_000, Fraction(1, 10), (0, 900, 2000)),
    ):
        for extra in more:
            reports = math.ceil(users / share) + extra
            exact = binomial_tail(reports - 1, users - 2, share)
            found = HonestShare(share).shortfall(users=users, reports=reports)
            assert exact <= found, (users, share, extra)
            assert found == 1 or found <= 40 * exact + Fraction(1, 10**299), (users, share, extra)


def test_many_people_lose_no_digits() -> None:
    """A trillion of them: the exponent is a small difference of large numbers."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for users, share in ((10**9, "0.5"), (10**12, "0.999"), (10**6, "0.999999")):
            h = Fraction(share)
            reports = needed_reports(users, HonestShare(h), contributions=1, rounds=1, delta=1e-6)
            m, s = mpmath.mpf(reports - 1), mpmath.mpf(users - 2)
            chance = mpmath.mpf(h.numerator) / h.denominator
            exponent = s * mpmath.log(chance * m / s) + (m - s) * mpmath.log(
                (1 - chance) * m / (m - s)
            )
            found = HonestShare(h).shortfall(users=users, reports=reports)
            assert mpmath.exp(exponent) <= found <= 1.02 * mpmath.exp(exponent)
            assert 0.5e-9 < found <= 1e-9


def test_what_was_waited_for_before_is_short_in_four_batches_of_ten() -> None:
    before = {(100, Fraction(9, 10)), (1_000, Fraction(9, 10)), (1_000, Fraction(1, 2))}
    for users, share in before:
        reports = math.ceil(users / share)
        assert Fraction(3, 10) < binomial_tail(reports - 1, users - 2, share) < Fraction(1, 2)
        assert HonestShare(share).shortfall(users=users, reports=reports) == 1


def test_the_margin_is_small() -> None:
    """73 reports more would do for a binomial law; five more hold for every split and liar."""
    few = math.ceil(1_000 / Fraction(9, 10))
    for more, enough in ((72, False), (73, True)):
        exact = binomial_tail(few + more - 1, 998, Fraction(9, 10))
        assert (exact <= Fraction(1, 10**9)) is enough
    found = needed_reports(1_000, NINE_TENTHS, contributions=1, rounds=1, delta=1e-6)
    assert (few, found - few) == (1_112, 78)
    with_one_less = NINE_TENTHS.shortfall(users=1_000, reports=found - 1)
    assert NINE_TENTHS.shortfall(users=1_000, reports=found) <= Fraction(1, 10**9) < with_one_less


def test_the_page_has_the_numbers_of_the_planner() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "honest-people.md"
    rows = [
        [cell.strip(" +%").replace(",", "") for cell in line.strip("| \n").split("|")]
        for line in page.read_text().splitlines()
        if line.startswith("| 1")
    ]
    assert len(rows) == 5
    for users, percent, mean, reports, more in rows:
        share = Fraction(int(percent), 100)
        found = needed_reports(
            int(users), HonestShare(share), contributions=1, rounds=1, delta=1e-6
        )
        few = math.ceil(int(users) / share)
        assert [mean, reports, more] == [str(few), str(found), f"{100 * (found / few - 1):.1f}"]


def test_a_part_of_a_pool_with_liars_whom_somebody_picked() -> None:
    """Of the others in a pool a share is honest, whoever they are; the hop splits it by chance."""
    for users, share in ((4, Fraction(1, 2)), (20, Fraction(4, 5)), (60, Fraction(9, 10))):
        for extra in (5, 15, 30):
            part = math.ceil(users / share) + extra
            found = HonestShare(share).shortfall(users=users, reports=part)
            for pool in (part, part + 1, 2 * part, 2 * part + 1, 7 * part):
                honest = math.ceil(share * (pool - 1))
                exact = hypergeometric_tail(pool - 1, honest, part - 1, users - 2)
                assert exact <= found, (users, part, pool)


def test_several_reports_of_each_person_in_any_arrangement() -> None:
    """Parts of a pool have all, some or one of the reports of a person; liars are people."""
    share, users, each = Fraction(4, 5), 3, 2
    for people in (5, 7, 9):
        part = people * each
        found = HonestShare(share).shortfall(users=users, reports=part, contributions=each)
        # The target has one or two reports in the part, and others have the rest in ones and twos.
        for own, pairs in product((1, 2), range(people)):
            rest = part - own - 2 * pairs
            if rest < 0:
                continue
            short = sum(
                (
                    binomial_mass(pairs, twos, share) * binomial_mass(rest, ones, share)
                    for twos in range(pairs + 1)
                    for ones in range(rest + 1)
                    if own + 2 * twos + ones < users * each
                ),
                Fraction(0),
            )
            assert short <= found, (people, own, pairs)
        assert people < 9 or found < 1


def binomial_mass(trials: int, hits: int, share: Fraction) -> Fraction:
    return math.comb(trials, hits) * share**hits * (1 - share) ** (trials - hits)


def test_all_splits_that_a_hop_tries_together() -> None:
    """Each into at most half as many parts: parts twice as large are short with the square."""
    share, users = Fraction(4, 5), 10
    for reports in (16, 18, 24, 40):
        tails = [binomial_tail(2**j * reports - 1, users - 2, share) for j in range(6)]
        assert sum(tails) <= HonestShare(share).shortfall(users=users, reports=reports)


def test_shares_and_people_that_make_no_sense_are_refused() -> None:
    for share in (Fraction(0), Fraction(1), Fraction(1, 1001), 0.9):
        with pytest.raises(InvalidInput, match="honest share"):
            HonestShare(share)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="reading"):
        HonestShare(Fraction(1, 2), "of the reports")  # type: ignore[arg-type]
    assert honest_share(1.0) is None
    assert honest_share(1 / 3) == HonestShare(Fraction(repr(1 / 3)))
    # Whoever is alone in the crowd is honest.
    assert NINE_TENTHS.shortfall(users=1, reports=1) == 0
    assert needed_reports(1, NINE_TENTHS, contributions=1, rounds=1, delta=1e-6) == 2
    # The smallest delta there is: no endless search.
    assert needed_reports(5, NINE_TENTHS, contributions=3, rounds=10, delta=1e-300) < 2_000


# ----------------------------------------------------------------------------
# The promise, against everything that can be seen.


@pytest.mark.parametrize(("users", "reports"), [(3, 6), (3, 8), (4, 7), (4, 8)])
def test_a_mixture_over_who_is_honest_keeps_the_promise(users: int, reports: int) -> None:
    """All people, all liars, all sums: worlds in which the analyzer knows who lies, and not.

    Honest people flip their bit, liars send what helps the analyzer most: a bit that it knows.
    """
    share, flip, growth = Fraction(3, 5), Fraction(1, 5), Fraction(2)
    promised = worst_delta(users, flip, growth)
    short = binomial_tail(reports - 1, users - 2, share)
    bound = HonestShare(share).shortfall(users=users, reports=reports)
    mixed = sum(
        (
            binomial_mass(reports - 1, honest - 1, share) * worst_delta(honest, flip, growth)
            for honest in range(1, reports + 1)
        ),
        Fraction(0),
    )
    worst = Fraction(0)
    for ones in range(reports):
        zeros = reports - 1 - ones
        known, views = Fraction(0), [[Fraction(0)] * (reports + 1) for _ in range(2)]
        for some, others in product(range(ones + 1), range(zeros + 1)):
            chance = binomial_mass(ones, some, share) * binomial_mass(zeros, others, share)
            known += chance * delta_of(some, others, flip, growth)
            for bit, view in enumerate(views):
                for place, mass in enumerate(law_of_sum(some + bit, others + 1 - bit, flip)):
                    # All liars send ones.
                    view[place + reports - 1 - some - others] += chance * mass
        assert hockey_stick(views[0], views[1], growth) <= known
        worst = max(worst, known)
    assert worst <= mixed <= promised + short * (1 - promised) <= promised + bound
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    whole = privacy.Shortened(mechanism, Fraction(0), bound)
    assert worst <= whole.delta(math.log(2)).upper


def test_without_a_charge_the_promise_would_be_false() -> None:
    """So many reports as the mean needs: by enumeration, for eight people of ten."""
    share, flip, growth, users = Fraction(4, 5), Fraction(3, 10), Fraction(2), 8
    reports = math.ceil(users / share)
    known = max(
        sum(
            (
                binomial_mass(ones, some, share)
                * binomial_mass(reports - 1 - ones, others, share)
                * delta_of(some, others, flip, growth)
                for some, others in product(range(ones + 1), range(reports - ones))
            ),
            Fraction(0),
        )
        for ones in range(reports)
    )
    assert known > Fraction(51, 50) * worst_delta(users, flip, growth)


# ----------------------------------------------------------------------------
# Plans.


def test_a_plan_waits_for_so_many_that_hardly_any_chance_is_left(plan: Plan) -> None:
    assert (plan.users, plan.crowd, plan.reports, plan.people) == (1_000, 1_000, 1_190, 1_190)
    assert plan.honest == NINE_TENTHS
    assert binomial_tail(1_189, 998, Fraction(9, 10)) < plan.shortfall <= Fraction(1, 10**9)
    assert plan.guarantee.method == "exact"
    whole = plan.mechanism()
    assert isinstance(whole, privacy.Shortened)
    assert whole.shortfall == plan.shortfall
    reached = whole.inner.delta(plan.epsilon).upper + float(plan.shortfall)
    assert whole.delta(plan.epsilon).upper == pytest.approx(reached, rel=1e-12)
    assert reached <= plan.delta
    plan.verify(shares=True)


def test_noise_hardly_grows(plan: Plan) -> None:
    sure = cf.plan(cf.Bit(), users=1_000, target=TARGET, max_messages=1)
    assert (sure.reports, sure.honest) == (1_000, None)
    assert sure.shortfall == 0
    of_one_report = [one.parts[0].standard_error(1) for one in (plan, sure)]
    assert of_one_report[0] == pytest.approx(of_one_report[1], rel=2e-3)


def test_a_plan_that_waits_for_fewer_does_not_hold(plan: Plan) -> None:
    for reports in (1_112, 1_130):
        with pytest.raises(GuaranteeNotProven):
            replace(plan, reports=reports, shares=()).verify()
    replace(plan, reports=5_000, shares=()).verify()
    # A plan that does not say that anybody may lie counts on honest people, and holds as before.
    replace(plan, reports=1_112, shares=(), honest=None).verify()


def test_a_file_keeps_it_and_a_file_without_it_means_what_it_meant(
    plan: Plan, tmp_path: Path
) -> None:
    plan.save(tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text())
    assert document["crowd"] == {
        "users": 1_000,
        "reports": 1_190,
        "counted_on": 1_000,
        "rounds": 1,
        "honest": {"share": "0.9", "reading": "independent"},
    }
    loaded = cf.load_plan(tmp_path / "plan.json")
    assert (loaded, loaded.id) == (plan, plan.id)
    before = replace(plan, honest=None, reports=1_112)
    assert "honest" not in before.document()["crowd"]
    assert before.shortfall == 0
    assert before.guarantee.crowd == "1000 honest users"
    assert isinstance(before.mechanism(), privacy.FlippedBits)
    before.verify()


def test_a_file_from_before_keeps_its_bytes_its_id_and_its_meaning(tmp_path: Path) -> None:
    """Made with ``honest=0.8`` by the version before plans said what that means (400 / 0.8)."""
    path = Path(__file__).parents[1] / "vectors" / "plan_of_mean_reports.json"
    loaded = cf.load_plan(path)
    assert loaded.id == "fe2baab7bfa83b85af1584cf68b27ec36d66667916e32417c056ea909d59ccf5"
    assert (loaded.users, loaded.reports, loaded.honest) == (400, 500, None)
    assert loaded.shortfall == 0
    loaded.verify(shares=True)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_nothing_is_released_of_fewer_reports_than_that(plan: Plan) -> None:
    answers = ["yes", "no"] * 595
    with pytest.raises(BatchTooSmall):
        cf.analyze(cf.shuffle(cf.encode_many(answers[:1_112], plan)), plan)
    release = cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan)
    assert "independently of one another and of the answers" in str(release)


def test_a_file_that_says_something_else_is_refused(plan: Plan, tmp_path: Path) -> None:
    for honest in (
        {"share": "0.9"},
        {"share": "0.9", "reading": "of the reports"},
        {"share": "1", "reading": "independent"},
        {"share": "0.90", "reading": "independent"},
        {"share": "0", "reading": "independent"},
        {"share": 0.9, "reading": "independent"},
        "0.9",
        None,
    ):
        document = json.loads(json.dumps(plan.document()))
        document["crowd"]["honest"] = honest
        body = {key: value for key, value in document.items() if key not in ("format", "id")}
        (tmp_path / "plan.json").write_text(json.dumps(identified(document["format"], body)))
        with pytest.raises((InvalidFile, InvalidInput)):
            cf.load_plan(tmp_path / "plan.json")


def test_it_is_charged_in_every_round_and_once_for_all_questions() -> None:
    survey = cf.Survey({"tea": cf.Bit(), "milk": cf.Bit(), "size": cf.Number(0, 1)})
    made = cf.plan(survey, users=800, target=TARGET, rounds=4, honest=0.8, local_epsilon=99)
    whole, once = made.mechanism(), made.round_mechanism()
    assert isinstance(whole, privacy.Shortened)
    assert isinstance(once, privacy.Shortened)
    assert whole.shortfall == 4 * once.shortfall == 4 * made.shortfall > 0
    assert 4 * made.shortfall <= Fraction(1, 10**9)
    assert made.guarantee.method == "upper-bound"
    document = json.loads(json.dumps(mechanism_document(once)))
    assert mechanism_from(document) == once
    # Four charges of one round are what all of them cost.
    charged = privacy.compose([once] * 4).delta_bound(made.epsilon)
    assert charged == pytest.approx(whole.delta_bound(made.epsilon), rel=1e-6)
    made.verify(shares=True)


def test_chances_of_cut_messages_and_of_too_few_people_add_up_over_rounds() -> None:
    """Of the whole, however many questions cut: neither may hide behind the other."""
    sizes = cf.Choice([f"size {number}" for number in range(20)])
    parts = tuple(Part(name, sizes, Flips(Fraction(1, 128), slots=9)) for name in ("a", "b"))
    made = Plan("", parts, 500, 900, 500, 3, 9.0, 1e-3, honest=HonestShare(Fraction(4, 5)))
    distances = [
        one.distance for one in (part.mechanism(500) for part in parts) if hasattr(one, "distance")
    ]
    whole, alone = made.mechanism(), made.mechanism(Fraction(1, 1000))
    assert isinstance(whole, privacy.Shortened)
    assert len(distances) == 2
    assert whole.distance == 3 * sum(distances) > 0
    assert whole.shortfall == 3 * made.shortfall > 0
    # Whoever counts on nobody else misses nobody.
    assert not isinstance(alone, privacy.Shortened)


def test_whatever_is_verified_can_be_charged() -> None:
    """However small the chance is: of a tiny delta, or as far more reports are waited for."""
    for delta in (1e-180, 1e-299):
        target = cf.Target(3.0, delta)
        made = cf.plan(cf.Bit(), users=2_000, target=target, max_messages=1, honest=0.9)
        more = replace(made, reports=9_000, shares=())
        for one in (made, more):
            one.verify()
            assert 0 < one.shortfall < Fraction(1, 10**180)
            charge = Charge.of(one)
            assert charge_from(charge.plan_id, charge.document, 1) == charge


@pytest.mark.long
def test_people_with_several_reports_are_counted_as_people() -> None:
    made = cf.plan(
        cf.Bit(missing="no"),
        users=300,
        target=cf.Target(2.0, 1e-3),
        contributions=3,
        max_messages=1,
        honest=0.9,
    )
    assert made.people == math.ceil(made.reports / 3) > 334
    # So many people at the least, each honest or not with all three.
    assert binomial_tail(made.people - 2, 298, Fraction(9, 10)) <= made.shortfall
    assert "liars are people, not reports" in made.explain()
    assert f"(of {made.people} people, each honest" in made.guarantee.crowd
    made.verify()


def test_what_counts_on_nobody_needs_no_honest_people() -> None:
    alone = cf.plan(cf.Bit(), users=1, target=cf.Target(3.0, 1e-6), honest=0.5, anyway=True)
    assert alone.crowd == 1
    assert alone.shortfall == 0
    assert alone.guarantee.crowd == "nobody but oneself"
    alone.verify()


def test_an_error_leads_to_it_as_well() -> None:
    made = cf.plan(cf.Bit(), users=2_000, error=cf.Error(0.02), max_messages=1, honest=0.95)
    assert made.honest == HonestShare(Fraction(19, 20))
    assert 0 < made.shortfall <= Fraction(made.delta) / 1000
    made.verify()


def test_it_is_said_in_plain_words(plan: Plan) -> None:
    words = plan.explain()
    for needed in (
        "Nothing is released before 1,190 reports are there",
        "liars are people, not reports, and lie independently of one another, of the answers",
        "1,000 honest users (of 1,190 people, each honest with a chance of 0.9, independently",
        "at most 8.24e-10, which is part of the promise",
    ):
        assert needed in words, needed
    # Nobody is told that fewer may lie than may, by rounding.
    other = replace(plan, honest=HonestShare(Fraction("0.123456")), reports=20_000, shares=())
    assert "is taken to lie with a chance of 0.876544:" in other.explain()


SURVEY = """
users = 1000
epsilon = 1
delta = 1e-6
max_messages = 1
{}
[questions.answer]
kind = "bit"
"""


def test_a_survey_says_it_and_is_checked_by_the_same_rule(plan: Plan) -> None:
    survey = survey_from(SURVEY.format('honest = "90%"'))
    assert survey.reports == plan.reports
    made = survey.plan()
    assert made.reports == survey.reports
    assert fits_survey(made, survey)
    # A plan that does not say that some may lie promises less than this survey.
    assert not fits_survey(replace(made, honest=None, reports=1_112), survey)
    assert not fits_survey(made, survey_from(SURVEY.format("")))
    assert survey_from(SURVEY.format("")).reports == 1_000
    # Charged in every round, of the delta that it says, and else of the usual one.
    wish = "epsilon = 1\ndelta = 1e-6"
    for other, rounds, delta in (
        (f"{wish}\nrounds = 5", 5, 1e-6),
        ("error = 0.03\ndelta = 1e-5", 1, 1e-5),
        ("error = 0.03", 1, 1e-8),
    ):
        found = survey_from(SURVEY.replace(wish, other).format('honest = "90%"')).reports
        assert found == needed_reports(
            1_000, NINE_TENTHS, contributions=1, rounds=rounds, delta=delta
        )
