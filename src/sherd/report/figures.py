"""The report's pictures: map, attacks, worth, promise, distributions, associations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sherd.auditing.verdict.significance import NOTICEABLE, SERIOUS, SHARES, standing
from sherd.auditing.verdict.verdict_points import percent
from sherd.report.plots import LETTER, Box, Palette, Plot, new_figure, place_names, spelt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.auditing.verdict.audit_result import Audit, Distribution, Place
    from sherd.auditing.verdict.measure import Measure
    from sherd.report.plots import Spot

DISTANCES = ("marginals-1", "marginals-2", "marginals-3", "associations", "pmse")
_MOST = 12
_CALM, _ALARM = "attacks do little or no better than chance", "attacks succeed"
_MAP_X, _MAP_Y = (-0.03, 1.03), (-0.12, 1.06)
_MAP_SIZE = (455.0, 262.0)


def figures(audit: Audit) -> list[Plot]:
    """Every picture that the audit has the numbers for."""
    plots = []
    pictures = audit.pictures
    if len(pictures.places) > 1:
        plots.append(risk_map(pictures.places, pictures.places_note))
    attacks = [m for m in audit.measures if m.code in SHARES]
    if attacks:
        plots.append(_attacks(attacks))
    claimed = audit.guarantee.get("epsilon")
    if "epsilon-frozen" in audit:
        plots.append(_promise(audit, claimed))
    distances = [m for m in audit.measures if m.code in DISTANCES and m.baseline is not None]
    if distances:
        plots.append(_distances(distances))
    every = pictures.distributions
    plots += [_distributions(every, start) for start in range(0, len(every), _MOST)]
    if pictures.associations is not None and len(pictures.names) > 1:
        plots.append(_associations(audit))
    return plots


def risk_map(places: Sequence[Place], note: str, title: str = "Risk and usefulness") -> Plot:
    """Points by utility and risk; the lower right is where one wants to be."""

    def draw(c: Palette) -> Any:
        figure, axes = new_figure(7.4, 4.4)
        ax = axes[0][0]
        ax.axhspan(SERIOUS, _MAP_Y[1], color=c.bad, alpha=0.09, lw=0)
        ax.axhspan(_MAP_Y[0], NOTICEABLE, color=c.good, alpha=0.09, lw=0)
        ax.text(0.5, 1.03, _ALARM, color=c.bad, fontsize=9, va="top", ha="center")
        ax.text(1.02, -0.105, _CALM, color=c.good, fontsize=9, ha="right")
        for place, spot in zip(places, _names_on_map(places), strict=True):
            marker, size = ("D", 95) if place.this else ("o", 55)
            ax.annotate(
                _plain(place.name),
                (place.utility, place.risk),
                xytext=(spot.dx, spot.dy),
                textcoords="offset points",
                fontweight="bold" if place.this else "normal",
                va="center",
                ha="left" if spot.dx > 0 else "right",
                arrowprops={
                    "arrowstyle": "-",
                    "color": c.muted,
                    "lw": 0.7,
                    "shrinkA": 0,
                    "relpos": (0.0 if spot.dx > 0 else 1.0, 0.5),
                }
                if spot.leader
                else None,
            )
            ax.scatter(
                [place.utility],
                [place.risk],
                s=size,
                marker=marker,
                color=c.after if place.this else c.before,
                zorder=3,
                edgecolor=c.paper,
                linewidth=1,
            )
        ax.set(xlim=_MAP_X, ylim=_MAP_Y)
        ax.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        ax.set_xlabel("joint distribution of pairs kept  →  more useful")
        ax.set_ylabel("best attack, above chance  →  riskier")
        ax.grid(visible=True, lw=0.5)
        return figure

    listed = "; ".join(
        f"{p.name}: usefulness {p.utility:.2f}, risk {p.risk:.2f}"
        + (" (this one)" if p.this else "")
        for p in places
    )
    tail = f" Measured on: {note}." if note else ""
    return Plot(
        name="map", title=title, alt=f"A map of risk against usefulness. {listed}.{tail}", draw=draw
    )


def _names_on_map(places: Sequence[Place]) -> list[Spot]:
    """Where each name goes beside its point; the map's size is that of its figure's axes."""
    across, up = _MAP_SIZE
    points = [
        (
            across * (place.utility - _MAP_X[0]) / (_MAP_X[1] - _MAP_X[0]),
            up * (place.risk - _MAP_Y[0]) / (_MAP_Y[1] - _MAP_Y[0]),
        )
        for place in places
    ]
    # A caption's type is a little smaller than that of a name.
    calm, alarm = (0.9 * LETTER * len(text) for text in (_CALM, _ALARM))
    return place_names(
        points,
        [place.name for place in places],
        frame=Box(left=0, bottom=0, right=across, top=up),
        captions=(
            Box(left=across - calm, bottom=0, right=across, top=15),
            Box(left=(across - alarm) / 2, bottom=up - 20, right=(across + alarm) / 2, top=up),
        ),
    )


def _attacks(attacks: Sequence[Measure]) -> Plot:
    def draw(c: Palette) -> Any:
        figure, axes = new_figure(7.4, 0.42 * len(attacks) + 1.1)
        ax = axes[0][0]
        for row, one in enumerate(reversed(attacks)):
            colour = c.bad if standing(one).counts else c.good
            ax.barh(row, max(0.0, one.value), height=0.56, color=colour, alpha=0.85)
            if one.low is not None and one.high is not None:
                ax.plot([max(0, one.low), min(1, one.high)], [row, row], color=c.ink, lw=1.4)
            if one.baseline is not None:
                ax.plot([one.baseline] * 2, [row - 0.4, row + 0.4], color=c.ink, lw=2.2)
            ax.text(
                min(1.0, max(0.0, one.value, one.high or 0, one.baseline or 0)) + 0.012,
                row,
                percent(max(0, one.value)),
                va="center",
                fontsize=9,
            )
        ax.set_yticks(range(len(attacks)), [one.spec.title for one in reversed(attacks)])
        ax.set(xlim=(0, 1.12), xlabel="how often the attack succeeds")
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=True, axis="x", lw=0.5)
        ax.set_axisbelow(True)
        return figure

    listed = "; ".join(
        f"{one.spec.title}: {percent(max(0, one.value))}, baseline {percent(one.baseline or 0)}"
        for one in attacks
    )
    return Plot(
        name="attacks",
        title="What attackers achieve",
        alt=f"Success of attacks. {listed}.",
        draw=draw,
    )


def _promise(audit: Audit, claimed: Any) -> Plot:
    rows = [("claimed in the experiment", 1.0, "before")]
    for code, words in (
        ("epsilon-frozen", "shown by test runs, noise of the table"),
        ("epsilon-recomputed", "shown by real runs, recomputed"),
    ):
        if code in audit:
            value = audit[code].value
            rows.append((words, value, "bad" if value > 1 else "good"))
    if "loss-factor" in audit and claimed:
        factor = audit["loss-factor"].value / float(claimed)
        bad = factor > 1 + 1e-6
        rows.append(("exact, on this table (ε / claimed ε)", factor, "bad" if bad else "good"))
    finite = [value for _, value, _ in rows if math.isfinite(value)]
    most = max(finite)
    wide = most > 20
    # A logarithmic axis has no zero: bars begin below the least that is to be seen.
    start = min(0.1, *(value / 2 for value in finite if value > 0)) if wide else 0.0
    # A bar without bound is three times as long as the longest, and its text must fit beside it.
    room = 6.0 if wide else 4.0 if len(finite) < len(rows) else 1.18

    def draw(c: Palette) -> Any:
        figure, axes = new_figure(7.4, 0.5 * len(rows) + 0.9)
        ax = axes[0][0]
        for row, (_, value, tone) in enumerate(reversed(rows)):
            shown = max(start, value if math.isfinite(value) else most * 3)
            ax.barh(row, shown - start, height=0.5, color=getattr(c, tone), alpha=0.85, left=start)
            text = f"{value:.3g}" if math.isfinite(value) else "without bound"
            beside = shown * 1.08 if wide else shown + 0.015 * most
            ax.text(beside, row, text, va="center", fontsize=9)
        ax.axvline(1, color=c.ink, lw=1.4, ls=(0, (4, 3)))
        ax.set_yticks(range(len(rows)), [words for words, _, _ in reversed(rows)])
        if wide:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlim(start, most * room)
        ax.set_xlabel("privacy loss, in units of the claimed ε (dashed: the claim)")
        ax.tick_params(axis="y", length=0)
        return figure

    listed = "; ".join(f"{words}: {value:.3g}" for words, value, _ in rows)
    return Plot(
        name="promise", title="Does the claimed ε hold?", alt=f"Privacy loss. {listed}.", draw=draw
    )


def _distances(measures: Sequence[Measure]) -> Plot:
    def draw(c: Palette) -> Any:
        figure, axes = new_figure(7.4, 0.45 * len(measures) + 1.1)
        ax = axes[0][0]
        limit = max(0.3, *(max(m.value, m.baseline or 0) for m in measures)) * 1.15
        for row, one in enumerate(reversed(measures)):
            base = one.baseline or 0.0
            ax.plot([base, one.value], [row, row], color=c.rule, lw=3, zorder=1)
            ax.scatter([base], [row], color=c.before, s=60, zorder=2, marker="|", linewidth=3)
            ax.scatter([one.value], [row], color=c.after, s=60, zorder=3)
            ax.annotate(
                f"{one.value:.3f}",
                (one.value, row),
                xytext=(0, 7),
                textcoords="offset points",
                color=c.after,
                fontsize=9,
                # Above its own dot: beside it, the stroke could be taken for its owner.
                ha="left" if one.value < 0.03 * limit else "center",
            )
        ax.set_yticks(range(len(measures)), [one.spec.title for one in reversed(measures)])
        ax.set(xlim=(0, limit), ylim=(-0.5, len(measures) - 0.3))
        ax.set_xlabel("distance from the original   (dot: the release, stroke: its yardstick)")
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=True, axis="x", lw=0.5)
        return figure

    listed = "; ".join(
        f"{m.spec.title}: {m.value:.3f}, yardstick {m.baseline:.3f} ({m.against})" for m in measures
    )
    return Plot(
        name="distances",
        title="How far the release is from the data",
        alt=f"Distances of the release from the original. {listed}.",
        draw=draw,
    )


def _distributions(every: Sequence[Distribution], start: int) -> Plot:
    """A dozen attributes; those after the first dozen are pictures of their own."""
    shown = every[start : start + _MOST]
    last = start + len(shown)

    def draw(c: Palette) -> Any:
        columns = min(3, len(shown))
        rows = -(-len(shown) // columns)
        figure, axes = new_figure(7.4, 1.9 * rows + 0.3, rows, columns)
        flat = [ax for line in axes for ax in line]
        for ax, one in zip(flat, shown, strict=False):
            edges = [i - 0.5 for i in range(len(one.classes) + 1)]
            ax.bar(range(len(one.classes)), one.before, width=0.95, color=c.before, alpha=0.35)
            ax.stairs(one.after, edges, color=c.after, lw=1.8)
            ax.set_title(_short(one.name, 24), fontsize=10, loc="left")
            ends = [_short(end, 14) for end in one.ends]
            ax.set_xticks([edges[0], edges[-1]], ends, fontsize=8)
            labels = ax.get_xticklabels()
            labels[0].set_ha("left")
            labels[-1].set_ha("right")
            ax.set_yticks([])
            ax.spines["left"].set_visible(False)
        for ax in flat[len(shown) :]:
            ax.set_visible(False)
        return figure

    more = f"Attributes {start + 1} to {last} of {len(every)}" if start else ""
    off = ", ".join(
        f"{d.name} {sum(abs(b - a) for b, a in zip(d.before, d.after, strict=True)) / 2:.2f}"
        for d in shown
    )
    return Plot(
        name=f"distributions-{start // _MOST + 1}" if start else "distributions",
        title=more or "Distributions: original (bars) and release (line)",
        alt=f"Distributions before and after; share of records that differ: {off}.",
        draw=draw,
        more=f"{more}: distributions" if more else "",
    )


def _short(text: str, most: int) -> str:
    return _plain(text if len(text) <= most else text[: most - 1] + "…")


def _plain(text: str) -> str:
    """A text that matplotlib shows as it is: it would take dollar signs for formulas."""
    return spelt(text).replace("$", r"\$")


def _associations(audit: Audit) -> Plot:
    names = audit.pictures.names
    assert audit.pictures.associations is not None
    before, after = audit.pictures.associations

    def draw(c: Palette) -> Any:
        figure, axes = new_figure(7.4, 3.1, 1, 3)
        panels = ((before, "original"), (after, "release"), (after - before, "difference"))
        mesh = None
        for ax, (matrix, title) in zip(axes[0], panels, strict=True):
            mesh = ax.pcolormesh(
                matrix[::-1], cmap="RdBu_r", vmin=-1, vmax=1, edgecolors="face", lw=0.3
            )
            ax.set_title(title, fontsize=10, loc="left")
            ax.set_aspect("equal")
            ax.set_xticks([])
            ax.set_yticks([])
            for spine in ax.spines.values():
                spine.set_visible(False)
        small = 8 if len(names) <= 14 else 6
        axes[0][0].set_yticks(
            [len(names) - i - 0.5 for i in range(len(names))],
            [_short(name, 16) for name in names],
            fontsize=small,
        )
        axes[0][0].tick_params(length=0)
        bar = figure.colorbar(mesh, ax=list(axes[0]), shrink=0.75, ticks=[-1, 0, 1])
        bar.outline.set_visible(False)
        bar.ax.tick_params(color=c.rule)
        return figure

    change = audit["associations"].value if "associations" in audit else 0.0
    return Plot(
        name="associations",
        title="Correlations and associations",
        alt="Heat maps of the association of every pair of attributes in the original and in the "
        f"release, and their difference; the mean absolute change is {change:.3f}.",
        draw=draw,
        names="".join(names),
    )
