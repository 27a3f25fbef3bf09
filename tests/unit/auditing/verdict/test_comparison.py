from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.audit_result import Audit
from sherd.auditing.verdict.comparison import compare
from sherd.auditing.verdict.measure import Measure, Skipped
from sherd.auditing.verdict.significance import JUDGED, NOTICEABLE, SERIOUS
from sherd.auditing.verdict.verdict import decide
from sherd.report import markdown, page, write
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DP = {"notion": "differential-privacy", "epsilon": 1.0}
CONTROLLED = {"singling-out": 0.0, "linkability": 0.0, "inference": 0.0, "membership": 0.0}
PAIRED = ("unchanged", "linkage", "linkage-known", "reconstruction", "co-cluster", "interval")


def audit(
    utility: float,
    attacks: Mapping[str, float],
    *,
    lacks: Mapping[str, str] | None = None,
    promise: bool | None = True,
) -> Audit:
    """An audit with attacks that surely win a share above chance, a promise kept or broken."""
    measures = [Measure(spec=CATALOGUE["marginals-2"], value=1 - utility, baseline=0.0, basis="")]
    measures += [
        Measure(spec=CATALOGUE[code], value=won, low=won, high=won, baseline=0.0, basis="")
        for code, won in attacks.items()
    ]
    skipped = tuple(
        Skipped(spec=CATALOGUE[code], reason="for a reason", lacks=need)
        for code, need in (lacks or {}).items()
    )
    checks = () if promise is None else (Check(name="a check", passed=promise, detail="so"),)
    guarantee: dict[str, Any] = {} if promise is None else DP
    return Audit(
        title="a method",
        plan={},
        guarantee=guarantee,
        stamps=(),
        rows=100,
        released_rows=100,
        attributes=("a", "b"),
        measures=tuple(measures),
        skipped=skipped,
        checks=checks,
        verdict=decide({m.code: m for m in measures}, checks, guarantee, (), skipped),
    )


def without_map(utility: float, won: float = 0.0, **more: Any) -> Audit:
    """An audit to which no row map was given."""
    attacks = CONTROLLED | {"inference": won}
    return audit(utility, attacks, lacks=dict.fromkeys(PAIRED, "pairs"), **more)


def with_map(utility: float, linkage: float = 0.0, won: float = 0.0, **more: Any) -> Audit:
    """An audit to which a row map was given; ``linkage`` is what linkage achieves."""
    paired = dict.fromkeys(PAIRED, 0.0) | {"linkage": linkage, "reconstruction": 0.9}
    return audit(utility, paired | CONTROLLED | {"inference": won}, **more)


def test_the_best_audited_is_not_punished() -> None:
    """Attacks that only one release was tried with do not move it behind the others."""
    found = compare({"dp": without_map(0.5), "ls": with_map(0.7), "cbls": without_map(0.6, 0.9)})
    assert set(found.shared) == set(CONTROLLED)
    assert found.recommended == "ls"
    assert {name: one.risk for name, one in found.judged.items()} == {
        "dp": "low in part",
        "ls": "low",
        "cbls": "serious",
    }
    assert found.warnings == ()
    assert "cbls (attacks succeed)" in found.reason


def test_a_serious_finding_that_was_not_run_on_all_stays_a_warning(tmp_path: Path) -> None:
    """It neither recommends those that were never tried with it, nor hides what it found."""
    found = compare({"dp": without_map(0.5), "ls": with_map(0.7, linkage=0.9)})
    ls = found.judged["ls"]
    assert found.audits["ls"].verdict.risk == "serious"
    assert ls.risk == "low in part"
    assert ls.grave
    assert found.recommended is None
    assert "None can be recommended yet. By the attacks that were run on all, ls " in found.reason
    assert "Left aside" not in found.reason
    (warning,) = found.warnings
    assert warning.startswith("On ls, attacks that were not run on all succeed: ")
    assert "Re-identification by distance 90 %" in warning
    assert "dp was not attacked in this way (no row map) and may be no safer." in warning
    assert "what was not run on all shows more (linkage)" in ls.headline
    bad = [point.text for point in ls.points if point.tone == "bad"]
    assert bad == [
        "Not comparable, run on ls only: Somebody who knows a person's true values finds their "
        "record in most (90 %) of cases (by chance 0 %: at least 90.0 points better)."
    ]
    for form in ("html", "md"):
        text = write(found, tmp_path / f"c.{form}").read_text()
        assert "Not comparable, run on ls only" in text
        assert "may be no safer" in text
        assert "Serious" not in text
        assert "Not safe to publish" not in text
    assert write(found, tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")
    data = json.loads(write(found, tmp_path / "c.json").read_text())
    assert data["warnings"] == [warning]
    listed = {one["code"]: one for one in data["judged"]["ls"]["not_comparable"]}
    assert set(listed) == set(PAIRED)
    assert listed["linkage"]["standing"] == "serious"
    assert listed["linkage"]["run_on"] == ["ls"]
    assert listed["reconstruction"]["standing"] is None  # no risk rests on it
    assert data["judged"]["dp"]["not_comparable"] == []


def test_a_warning_on_another_goes_with_the_recommendation() -> None:
    """Where the warned release is not the first, the choice stands and the warning beside it."""
    found = compare(
        {"dp": without_map(0.8), "ls": with_map(0.7, linkage=0.1), "um": without_map(0.6)}
    )
    assert found.recommended == "dp"
    assert "Not every attack was tried on it." in found.reason
    (warning,) = found.warnings
    assert "On ls, attacks that were not run on all do better than chance" in warning
    assert "dp and um were not attacked in this way" in warning
    assert "Give what is missing" in warning


def test_one_tried_with_everything_goes_before_one_that_fails_it() -> None:
    """Of two with a row map, the one that linkage fails on is taken, though it keeps less."""
    found = compare(
        {"ls": with_map(0.9, linkage=0.9), "cbls": with_map(0.7), "dp": without_map(0.8)}
    )
    assert found.recommended == "cbls"
    assert "ls (what was not run on all shows more)" in found.reason
    assert "dp (not every attack was tried on it)" in found.reason
    assert "run on ls and cbls only" in " ".join(p.text for p in found.judged["cbls"].points)


def test_an_attack_without_meaning_is_no_gap() -> None:
    """Linkage means nothing for slices: they are not called untested, and the warning says so."""
    slices = audit(0.5, CONTROLLED, lacks=dict.fromkeys(PAIRED, "rows"))
    found = compare({"slices": slices, "ls": with_map(0.7, linkage=0.9)})
    assert found.judged["slices"].risk == "low"
    assert found.recommended == "slices"
    assert "They have no meaning for slices." in found.warnings[0]
    assert "no safer" not in found.warnings[0]


@pytest.mark.parametrize(
    "won", [0.0, NOTICEABLE - 1e-6, NOTICEABLE + 1e-6, SERIOUS - 1e-6, SERIOUS + 1e-6, 0.9]
)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_map_card_and_recommendation_agree(won: float, first: bool, second: bool) -> None:
    """Whoever has a row map, the zone of the map is the one that level and choice speak of."""
    found = compare(
        {
            "a": with_map(0.9, linkage=won, won=won) if first else without_map(0.9, won),
            "b": with_map(0.5) if second else without_map(0.5),
        }
    )
    for place in found.places:
        risk = found.judged[place.name].risk
        assert (place.risk >= SERIOUS) == (risk == "serious")
        assert (NOTICEABLE <= place.risk < SERIOUS) == (risk == "noticeable")
        assert (place.risk < NOTICEABLE) == (risk in ("low", "low in part"))
        if place.this:
            assert risk != "serious"
            assert not found.judged[place.name].grave


def test_originals_that_came_through_are_on_the_map() -> None:
    """Where most cells are the originals, card and map say serious though no attack was run."""
    same = dict.fromkeys(JUDGED, 0.0) | {"unchanged": 0.8}
    found = compare({"a": audit(0.9, same), "b": audit(0.5, dict.fromkeys(JUDGED, 0.0))})
    assert {p.name: p.risk for p in found.places} == {"a": pytest.approx(0.8), "b": 0.0}
    assert found.judged["a"].risk == "serious"
    assert found.recommended == "b"


def test_without_a_common_attack_nothing_is_recommended() -> None:
    """Nothing is called safe, unsafe or drawn where no attack could be run on all."""
    lacks = dict.fromkeys(CONTROLLED, "control") | dict.fromkeys(PAIRED, "pairs")
    found = compare({"a": audit(0.5, {}, lacks=lacks), "b": with_map(0.7, linkage=0.9)})
    assert found.recommended is None
    assert "no attack could be run on all of them" in found.reason
    assert found.mapped == ()
    assert found.judged["b"].risk == "unknown"
    assert found.judged["b"].headline.startswith("No attack could be run on all of them")
    assert "On b, attacks that were not run on all succeed" in found.warnings[0]
    assert 'id="figure-map"' not in page.comparison(found)
    assert "could be run on all: none." in markdown.comparison(found)
    assert json.loads(json.dumps(found.as_data(), allow_nan=False))["map"][0]["risk"] is None


def test_only_some_can_be_judged() -> None:
    """Where originals came through in one and nothing else could be tried, that one is named."""
    lacks = dict.fromkeys(CONTROLLED, "control")
    some = {"same": audit(0.9, {"unchanged": 0.9}, lacks=lacks)}
    some["other"] = audit(0.5, {"unchanged": 0.0}, lacks=lacks)
    found = compare(some)
    assert found.recommended is None
    assert "every one that could be attacked" in found.reason
    assert [place.name for place in found.mapped] == ["same"]


def test_nothing_is_recommended_where_all_fail() -> None:
    """Where attacks succeed on every release none is recommended, and the least bad is named."""
    found = compare({"one": with_map(0.9, 0.9), "two": with_map(0.9, 0.5)})
    assert found.recommended is None
    assert "attacks succeed on every one. The least exposed is two" in found.reason


def test_a_useless_choice_is_called_so() -> None:
    """The recommendation says so where even the best keeps little, or breaks its promise."""
    assert "little use" in compare({"a": with_map(0.3)}).reason
    broken = with_map(0.9, promise=False)
    assert "promise does not hold as claimed." in compare({"a": broken}).reason
    silent = with_map(0.9, promise=None)
    assert "it promises nothing, and the others" in compare({"a": silent, "b": broken}).reason
    exposed = with_map(0.9, linkage=0.1)
    assert "succeeds seriously and whose promise holds" in compare({"a": exposed}).reason
    low = with_map(0.8)
    assert "b (its promise does not hold)" in compare({"a": low, "b": broken}).reason
    assert "b (it promises nothing)" in compare({"a": low, "b": silent}).reason
    assert "b (more exposed)" in compare({"a": low, "b": exposed}).reason


def test_an_attack_nobody_asked_for_is_no_gap_of_the_others() -> None:
    """Insiders are only tried where owners are named; the warning says the rest was not asked."""
    owned = audit(0.9, dict.fromkeys(JUDGED, 0.0) | {"insider": 0.9})
    rest = {code: 0.0 for code in JUDGED if code != "insider"}
    found = compare({"joint": owned, "pooled": audit(0.5, rest)})
    assert "pooled was not attacked in this way (not asked for)" in found.warnings[0]
    assert found.judged["pooled"].risk == "low"
