"""Plots in the papers' forms: heat maps over (ε, k), curves, logarithmic where asked, bars."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def _figure(columns: int, rows: int = 1, width: float = 4.2, height: float = 3.8) -> Any:
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def heat_maps(rows: list[dict[str, Any]], value: str, panel: str, what: str = "") -> Any:
    """One heat map a panel, cream to red as in the paper, the number in every cell."""
    panels = list(dict.fromkeys(row[panel] for row in rows))
    figure, axes = _grid(panels, 2)
    for axis, name in zip(axes, panels, strict=True):
        own = [row for row in rows if row[panel] == name]
        epsilons = sorted({row["epsilon"] for row in own})
        ks = sorted({row["k"] for row in own})
        cells = np.full((len(ks), len(epsilons)), np.nan)
        for row in own:
            cells[ks.index(row["k"]), epsilons.index(row["epsilon"])] = row[value]
        span = np.nanmax(np.abs(cells)) or 1.0
        low = -span if np.nanmin(cells) < 0 else 0.0
        shown = axis.imshow(
            cells,
            cmap="RdBu_r" if low < 0 else "YlOrRd",
            vmin=low,
            vmax=span,
            aspect="auto",
            origin="lower",
        )
        axis.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
        axis.set_yticks(range(len(ks)), [str(k) for k in ks])
        axis.set_xlabel("ε")
        axis.set_ylabel("k")
        axis.set_title(str(name), fontsize=10)
        for i in range(len(ks)):
            for j in range(len(epsilons)):
                if not np.isnan(cells[i, j]):
                    dark = abs(cells[i, j]) > 0.65 * span
                    axis.text(
                        j,
                        i,
                        f"{cells[i, j]:.2g}",
                        ha="center",
                        va="center",
                        fontsize=7,
                        color="white" if dark else "black",
                    )
        figure.colorbar(shown, ax=axis, label=what)
    return figure


def _grid(panels: list[Any], across: int, height: float = 3.8, width: float = 4.2) -> Any:
    """A figure with an axis for each panel."""
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    figure = _figure(across, down, width=width, height=height)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return figure, axes[: len(panels)]


def curves(
    rows: list[dict[str, Any]],
    x: str,
    y: str,
    line: str,
    panel: str,
    *,
    log: bool = True,
    label: str | None = None,
    x_labels: dict[str, str] | None = None,
    log_x: frozenset[str] = frozenset(),
    across: int = 3,
) -> Any:
    """Curves, one panel each, on a logarithmic scale where asked.

    ``x_labels`` and ``log_x`` speak of panels by name.
    """
    panels = list(dict.fromkeys(row[panel] for row in rows))
    figure, axes = _grid(panels, across)
    colours = {called: f"C{at}" for at, called in enumerate(dict.fromkeys(r[line] for r in rows))}
    shown: dict[str, Any] = {}
    for axis, name in zip(axes, panels, strict=True):
        own = [row for row in rows if row[panel] == name]
        for called in dict.fromkeys(row[line] for row in own):
            points = sorted((row[x], row[y]) for row in own if row[line] == called)
            style = {"marker": "o", "markersize": 3, "color": colours[called]}
            shown[str(called)] = axis.plot(*zip(*points, strict=True), **style)[0]
        if log:
            axis.set_yscale("log")
        elif not any(row[y] for row in own):
            axis.set_ylim(-0.05, 1)  # a line at 0 has no scale of its own
        if name in log_x:
            axis.set_xscale("log")
        axis.set_xlabel((x_labels or {}).get(name, x))
        axis.set_ylabel(label or y)
        axis.set_title(str(name), fontsize=10)
        axis.grid(visible=True, alpha=0.3)
    figure.legend(
        list(shown.values()), list(shown), fontsize=8, loc="outside lower center",
        ncols=min(5, len(shown), 2 * min(across, len(panels))),
    )  # fmt: skip
    return figure


def bars(rows: list[dict[str, Any]], label: str, *, across: int = 3, percent: bool = False) -> Any:
    """Groups of bars: rows say their ``panel``, ``group``, ``bar`` and ``height``."""
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    figure, axes = _grid(panels, across, height=3.2, width=5.4)
    kinds = list(dict.fromkeys(row["bar"] for row in rows))
    colours = {kind: f"C{at}" for at, kind in enumerate(kinds)}
    for axis, name in zip(axes, panels, strict=True):
        own = [row for row in rows if row["panel"] == name]
        groups = list(dict.fromkeys(row["group"] for row in own))
        there = list(dict.fromkeys(row["bar"] for row in own))
        width = 0.8 / len(there)
        for at, kind in enumerate(there):
            bar = {row["group"]: row["height"] for row in own if row["bar"] == kind}
            places = [groups.index(g) - 0.4 + (at + 0.5) * width for g in bar]
            axis.bar(places, list(bar.values()), width, label=str(kind), color=colours[kind])
        axis.set_xticks(range(len(groups)), [str(g) for g in groups], fontsize=8)
        if max(len(str(g)) for g in groups) > 6:
            axis.tick_params(axis="x", labelrotation=25)
        axis.axhline(0, color="black", linewidth=0.8)
        axis.set_ylabel(label)
        axis.set_title(str(name), fontsize=10)
        axis.grid(visible=True, axis="y", alpha=0.3)
        if percent:
            axis.set_ylim(min(0.0, *(row["height"] for row in rows)) * 1.05, 105)
    shown: dict[str, Any] = {}
    for axis in axes:
        for handle, called in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(called, handle)
    figure.legend(
        list(shown.values()), list(shown), fontsize=8, loc="outside lower center",
        ncols=min(7, len(shown)),
    )  # fmt: skip
    return figure


def flat_bars(rows: list[dict[str, Any]], name: str, value: str) -> Any:
    """One horizontal bar a row, in the order given, with its number at the end."""
    figure = _figure(1, width=7.5, height=0.6 + 0.36 * len(rows))
    axis = figure.subplots()
    drawn = axis.barh([str(row[name]) for row in rows], [row[value] for row in rows])
    axis.bar_label(drawn, fmt="%.3g", padding=3, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel(value)
    axis.margins(x=0.12)
    axis.grid(visible=True, axis="x", alpha=0.3)
    return figure
