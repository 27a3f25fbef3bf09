from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.audit_result import Distribution, Place
from sherd.auditing.verdict.measure import Measure, Side
from sherd.report.figures import (
    _MAP_SIZE,
    _attacks,
    _distances,
    _distributions,
    _names_on_map,
    _promise,
    risk_map,
)
from sherd.report.plots import LIGHT, Box, place_names


class Numbers(dict[str, Any]):
    """An audit's measures by code."""


def lost(**values: float) -> Any:
    """Measured privacy losses, in units of the claim."""
    return Numbers({code.replace("_", "-"): SimpleNamespace(value=v) for code, v in values.items()})


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"epsilon_frozen": 2.5, "loss_factor": 4.0}, [4.0, 2.5, 1.0]),
        ({"epsilon_frozen": 2.5, "loss_factor": 43.0}, [43.0, 2.5, 1.0]),
        ({"epsilon_frozen": 0.02, "loss_factor": 300.0}, [300.0, 0.02, 1.0]),
        ({"epsilon_frozen": 30.0, "loss_factor": math.inf}, [90.0, 30.0, 1.0]),
    ],
)
def test_bars_of_the_promise_end_at_their_values(
    values: dict[str, float], shown: list[float]
) -> None:
    """On a plain and on a logarithmic axis a bar's right end is the value it stands for."""
    ax = _promise(lost(**values), 1.0).draw(LIGHT).axes[0]
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    assert ends == pytest.approx(shown)
    assert all(bar.get_x() == pytest.approx(ax.get_xlim()[0]) for bar in ax.patches)
    assert (ax.get_xscale() == "log") == (max(shown) > 20)


def test_a_loss_of_nothing_has_no_bar() -> None:
    """A logarithmic axis has no zero: the bar is empty and its number stands at the axis."""
    ax = _promise(lost(epsilon_frozen=0.0, loss_factor=43.0), 1.0).draw(LIGHT).axes[0]
    assert ax.patches[1].get_width() == 0
    assert "0" in [text.get_text() for text in ax.texts]


def test_nothing_is_cut_off_the_picture_of_attacks() -> None:
    """The longest name of an attack leaves room for the words under the axis."""
    titles = sorted((one.title for one in CATALOGUE.values() if one.side is Side.RISK), key=len)
    longest = next(one for one in CATALOGUE.values() if one.title == titles[-1])
    one = Measure(spec=longest, value=1.0, low=0.9, high=1.0, baseline=0.2, basis="all records")
    figure = _attacks([one]).draw(LIGHT)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    for text in (ax.xaxis.label, *ax.get_yticklabels(), *ax.get_xticklabels(), *ax.texts):
        drawn = text.get_window_extent()
        assert drawn.x0 >= figure.bbox.x0, text.get_text()
        assert drawn.x1 <= figure.bbox.x1, text.get_text()


def test_the_number_of_a_distance_stands_at_its_own_dot() -> None:
    """Also where the yardstick is larger, the number is the dot's, in its place and colour."""
    measures = [
        Measure(spec=CATALOGUE["associations"], value=value, baseline=0.2, basis="")
        for value in (0.0, 0.1, 0.4)
    ]
    ax = _distances(measures).draw(LIGHT).axes[0]
    assert [(t.get_text(), t.xy[0]) for t in ax.texts] == [
        ("0.400", 0.4),
        ("0.100", 0.1),
        ("0.000", 0.0),
    ]
    assert {t.get_color() for t in ax.texts} == {LIGHT.after}


def test_ticks_of_a_distribution_are_its_ends() -> None:
    """Left where the first class begins, right where the last one ends; dollars are no formula."""
    one = Distribution(
        name="a $ and $", classes=("17", "53.5"), ends=("17", "90"), before=(0.5, 0.5),
        after=(0.4, 0.6),
    )  # fmt: skip
    ax = _distributions([one], 0).draw(LIGHT).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["17", "90"]
    assert list(ax.get_xticks()) == [-0.5, 1.5]
    assert ax.get_title(loc="left") == r"a \$ and \$"


CROWDS = [
    [(0.97, 0.87), (0.209, 0.0), (0.213, 0.0), (0.267, 0.0), (0.285, 0.0)],
    [(0.70, 0.0), (0.711, 0.0), (0.73, 0.0), (0.9, 0.01), (0.5, 0.04), (0.72, 0.06)],
    [(0.5, 0.1)] * 5,
    [(1.0, 0.0), (0.99, 0.01), (1.0, 1.0), (0.0, 1.0), (0.5, 1.0)],
]


@pytest.mark.parametrize("crowd", CROWDS)
def test_names_on_the_map_can_be_read(crowd: list[tuple[float, float]]) -> None:
    """No name lies on another or on a caption, none leaves the map, no line runs through one."""
    places = [Place(name=f"release {i}", utility=u, risk=r) for i, (u, r) in enumerate(crowd)]
    spots = _names_on_map(places)
    for i, one in enumerate(spots):
        assert one.box.left >= 0
        assert one.box.bottom >= 0
        for j, other in enumerate(spots):
            if i != j:
                assert not one.box.meets(other.box)
                assert other.leader is None or not one.box.crossed(*other.leader)


def test_names_are_where_the_drawing_puts_them() -> None:
    """The room that was reckoned with is the room that names and captions take when drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    places = [Place(name=f"release {i}", utility=u, risk=r) for i, (u, r) in enumerate(CROWDS[1])]
    figure = risk_map(places, "").draw(LIGHT)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    ax = figure.axes[0]
    # Of the words alone: the extent of an annotation has its leader in it.
    drawn = [Text.get_window_extent(text, canvas.get_renderer()) for text in ax.texts]
    for i, one in enumerate(drawn):
        assert not any(one.overlaps(other) for other in drawn[i + 1 :])
    across, up = (72 * side / figure.dpi for side in (ax.bbox.width, ax.bbox.height))
    assert (across, up) == pytest.approx(_MAP_SIZE, rel=0.1)


def test_this_one_is_named_in_words() -> None:
    """The map's words say which point is the release's own."""
    place = Place(name="a $", utility=0.5, risk=0.1)
    assert "(this one)" in risk_map([replace(place, this=True)], "a test").alt


def test_a_name_without_room_stands_beside_its_point() -> None:
    """In a frame too small for it a name still has a place, and lies on as little as can be."""
    (spot,) = place_names(
        [(5.0, 5.0)], ["far too long a name"], frame=Box(left=0, bottom=0, right=10, top=10)
    )
    assert spot.leader is None
