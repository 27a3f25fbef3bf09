from __future__ import annotations

import pytest

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure
from sherd.auditing.verdict.significance import Standing, standing, worst_excess
from sherd.auditing.verdict.verdict import decide
from sherd.report.figures import _attacks
from sherd.report.plots import LIGHT


def inference(value: float, low: float, baseline: float = 0.42) -> Measure:
    """Inference of an attribute, as in a release where chance is right in 42 % of cases."""
    return Measure(
        spec=CATALOGUE["inference"], value=value, low=low, high=1.0, baseline=baseline, basis=""
    )


def unchanged(value: float, baseline: float) -> Measure:
    """A share of unchanged cells."""
    return Measure(spec=CATALOGUE["unchanged"], value=value, baseline=baseline, basis="")


AT_NOTICEABLE = 0.42 + 0.05 * 0.58
AT_SERIOUS = 0.42 + 0.2 * 0.58
CASES = [
    (inference(0.42, 0.40), Standing.CHANCE),
    (inference(0.46, 0.42), Standing.UNSURE),
    (inference(0.46, 0.44), Standing.SLIGHT),
    (inference(0.47, AT_NOTICEABLE - 1e-6), Standing.SLIGHT),
    (inference(0.47, AT_NOTICEABLE + 1e-6), Standing.NOTICEABLE),
    (inference(0.60, AT_SERIOUS - 1e-6), Standing.NOTICEABLE),
    (inference(0.60, AT_SERIOUS + 1e-6), Standing.SERIOUS),
]


@pytest.mark.parametrize(("one", "stands"), CASES)
def test_headline_mark_level_and_colour_agree(one: Measure, stands: Standing) -> None:
    """On both sides of each threshold, everything said about an attack follows its standing."""
    assert standing(one) is stands
    found = decide({"inference": one}, (), {})
    lines = [point for point in found.points if "attribute is guessed" in point.text]
    assert len(lines) == (stands is not Standing.CHANCE)
    assert all(line.tone == ("bad" if stands.counts else "plain") for line in lines)
    assert found.risk == (stands.name.lower() if stands.counts else "low")
    bar = _attacks([one]).draw(LIGHT).axes[0].patches[0]
    drawn = "#" + "".join(f"{round(255 * part):02x}" for part in bar.get_facecolor()[:3])
    assert drawn == (LIGHT.bad if stands.counts else LIGHT.good)
    sure = stands >= Standing.SLIGHT
    assert ("do no better than chance" in found.headline) == (not sure)
    assert all(("points better" in line.text) == sure for line in lines)


def test_the_gain_is_said_in_points() -> None:
    """Headline and line say by how much an attack beats chance at the least."""
    slight = decide({"inference": inference(0.46, 0.44)}, (), {})
    assert slight.headline.startswith(
        "The attacks we ran do little better than chance (at least 2.0 points better)"
    )
    assert slight.points[0].text.endswith("(by chance 42 %: at least 2.0 points better).")
    some = decide({"inference": inference(0.50, 0.46)}, (), {})
    assert some.headline.startswith(
        "Some attacks on this release do better than chance, by at least 4.0 points"
    )
    unsure = decide({"inference": inference(0.46, 0.42)}, (), {})
    assert "too few were tried to tell the two apart" in unsure.points[0].text


@pytest.mark.parametrize(
    ("one", "stands", "risk"),
    [
        (unchanged(0.9, 0.1), Standing.SERIOUS, "serious"),
        (unchanged(0.9, 0.89), Standing.SLIGHT, "unknown"),
        (unchanged(0.4, 0.1), Standing.SLIGHT, "unknown"),
        (unchanged(0.1, 0.1), Standing.CHANCE, "unknown"),
        (unchanged(1.0, 1.0), Standing.CHANCE, "unknown"),
    ],
)
def test_unchanged_cells_are_bad_only_where_they_are_most(
    one: Measure, stands: Standing, risk: str
) -> None:
    """Originals that came through are serious or a note; alone they make no low risk."""
    assert standing(one) is stands
    found = decide({"unchanged": one}, (), {})
    assert found.risk == risk
    assert found.points[0].tone == stands.tone
    assert "points better" not in found.points[0].text


def test_the_worst_attack_is_the_one_that_surely_wins_most() -> None:
    """Attacks are ordered by what they surely win; without one there is no worst."""
    link = Measure(spec=CATALOGUE["linkage"], value=0.9, low=0.1, high=1.0, baseline=0.0, basis="")
    found = worst_excess({"linkage": link, "inference": inference(0.7, 0.71)})
    assert found is not None
    assert found[0] == "inference"
    assert worst_excess({}) is None
