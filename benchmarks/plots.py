"""Plots in the papers' forms: heat maps over (ε, k) and curves on a logarithmic scale."""

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
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = _figure(across, down)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis, name in zip(axes, panels, strict=False):
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


def curves(
    rows: list[dict[str, Any]],
    x: str,
    y: str,
    line: str,
    panel: str,
    *,
    log: bool = True,
    label: str | None = None,
) -> Any:
    """Curves over k, one panel each, on a logarithmic scale where asked."""
    panels = list(dict.fromkeys(row[panel] for row in rows))
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = _figure(across, down)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis, name in zip(axes, panels, strict=False):
        own = [row for row in rows if row[panel] == name]
        for name_of in dict.fromkeys(row[line] for row in own):
            points = sorted((row[x], row[y]) for row in own if row[line] == name_of)
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=str(name_of))
        if log:
            axis.set_yscale("log")
        axis.set_xlabel(x)
        axis.set_ylabel(label or y)
        axis.set_title(str(name), fontsize=10)
        axis.grid(visible=True, alpha=0.3)
    axes[0].legend(fontsize=7)
    return figure


def bars(rows: list[dict[str, Any]], name: str, value: str) -> Any:
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
