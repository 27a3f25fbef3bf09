"""Tuning: the (epsilon, k) map of information loss, for the owner's eyes only.

Looking at the loss and then choosing epsilon or k uses the data: what is chosen tells
something about it that no epsilon covers. The map is therefore marked internal, and a plan
made from it does not keep the assumption that its parameters were chosen without the data.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import PlanError
from sherd.release.method import DIRECTORY, Run, find
from sherd.release.plan import Plan
from sherd.release.protect import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from sherd.tables.schema import Schema

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond them the
# normal's 1.96 is near enough.
_T95 = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23,
    2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09,
    2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The loss of one plan: mean over the runs and half the width of its 95 % interval."""

    method: str
    guarantee: str
    epsilon: float
    k: int | None
    loss: float
    margin: float
    runs: int
    variant: str

    def as_data(self) -> dict[str, Any]:
        """The cell as plain data."""
        return dict(vars(self))


def tune(
    table: Any,
    schema: Schema,
    *,
    methods: Sequence[str] | None = None,
    epsilons: Sequence[float] = (0.1, 0.5, 1.0),
    ks: Sequence[int] = (5, 25, 100, 500),
    runs: int = 10,
    threads: int | None = None,
    parameters: dict[str, Any] | None = None,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> list[Cell]:
    """Measure the mean SSE of every method, epsilon and k, over several runs each.

    Without ``methods``, every method with noise that releases records is tried. ``ks`` does
    not apply to methods without clusters; they get one cell an epsilon. What comes out is for
    the owner only: choosing a plan by it uses the data.
    """
    from sherd.randomness import Randomness
    from sherd.tables.frames import to_arrow
    from sherd.tables.prepare import prepare

    methods = _tunable() if methods is None else methods

    if runs < 2:
        raise PlanError("too few runs for an interval", must="at least 2 runs", got=str(runs))
    if not methods or not epsilons:
        raise PlanError("there is nothing to try", must="at least one method and one epsilon")
    plans = [
        plan
        for method in methods
        for epsilon in epsilons
        for plan in _plans(method, epsilon, ks, parameters or {})
    ]
    if not plans:
        raise PlanError(
            "there is nothing to try",
            must="a k that one of the methods accepts",
            got=", ".join(map(str, ks)) or "no k",
        )
    for plan in plans:
        plan.check(schema)
        if plan["guarantee"] == "strict":
            raise PlanError(
                "a strict release has no rows whose loss could be measured",
                must="a promise that releases rows",
                got="'strict'",
            )
    prepared = prepare(to_arrow(table), schema).table
    root = Randomness.from_system()
    cells = []
    with ThreadPoolExecutor(max_workers=threads or cores()) as pool:
        jobs = [
            (prepared, schema, plan, runs, stream)
            for plan, stream in zip(plans, root.spawn(len(plans)), strict=True)
        ]
        for done, cell in enumerate(pool.map(lambda job: _cell(*job), jobs), 1):
            cells.append(cell)
            progress("trying", done, len(plans))
    return cells


def _tunable() -> tuple[str, ...]:
    """The methods with noise whose releases have rows, and a promise to choose."""
    wanted = {"epsilon", "guarantee"}
    return tuple(
        name
        for name in DIRECTORY
        if find(name).traits.alternative is not None
        and wanted <= {parameter.name for parameter in find(name).parameters}
    )


def _plans(method: str, epsilon: float, ks: Sequence[int], more: dict[str, Any]) -> list[Plan]:
    spec = find(method)
    known = {parameter.name: parameter for parameter in spec.parameters}
    if not {"epsilon", "guarantee"} <= set(known):
        raise PlanError(f"the method '{method}' has no epsilon to tune", must="a method with noise")
    own = {name: value for name, value in more.items() if name in known}
    if "guarantee" in known and known["guarantee"].default is None:
        own.setdefault("guarantee", "paper")
    if "k" not in known:
        return [Plan(method=method, epsilon=epsilon, **own)]
    usable = [k for k in ks if k >= (known["k"].least or 1)]
    return [Plan(method=method, epsilon=epsilon, k=k, **own) for k in usable]


def _cell(table: pa.Table, schema: Schema, plan: Plan, runs: int, randomness: Any) -> Cell:
    from sherd.release.information_loss import squared_error

    by_frequency = plan["category_order"] == "frequency"
    measured = []
    for stream in randomness.spawn(runs):
        outcome = plan.spec.run(table, schema, plan, Run(randomness=stream, shuffle=False))
        measured.append(
            squared_error(table, outcome.tables["data"], schema, by_frequency=by_frequency)
        )
    losses = np.array([loss.value for loss in measured])
    quantile = _T95[runs - 2] if runs - 2 < len(_T95) else 1.96
    return Cell(
        method=plan.method,
        guarantee=plan["guarantee"],
        epsilon=plan["epsilon"],
        k=plan.parameters.get("k"),
        loss=float(losses.mean()),
        margin=float(quantile * losses.std(ddof=1) / math.sqrt(runs)),
        runs=runs,
        variant=measured[0].variant,
    )


def best(cells: Sequence[Cell]) -> dict[tuple[str, float], Cell]:
    """For every method and epsilon the cell with the least loss."""
    lowest: dict[tuple[str, float], Cell] = {}
    for cell in cells:
        key = (cell.method, cell.epsilon)
        if key not in lowest or cell.loss < lowest[key].loss:
            lowest[key] = cell
    return lowest


def heat_map(cells: Sequence[Cell], path: Any) -> None:
    """Draw one map a method, epsilon against k, colours on a shared logarithmic scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(cell.method for cell in cells))
    columns = [len({cell.epsilon for cell in cells if cell.method == name}) for name in methods]
    width = 2.2 + sum(1.1 + 0.62 * count for count in columns)
    height = 1.9 + 0.45 * max(len({cell.k for cell in cells}), 3)
    figure = Figure(figsize=(max(width, 4.8), height), layout="constrained")
    FigureCanvasAgg(figure)
    positive = [cell.loss for cell in cells if cell.loss > 0] or [1.0]
    norm = LogNorm(vmin=min(positive), vmax=max(*positive, min(positive) * 1.001))
    axes = figure.subplots(1, len(methods), squeeze=False, width_ratios=columns)[0]
    for axis, method in zip(axes, methods, strict=True):
        _panel(axis, [cell for cell in cells if cell.method == method], norm)
    colours = ScalarMappable(norm=norm, cmap=_COLOURS)
    figure.colorbar(colours, ax=list(axes), label="mean SSE (less is better)")
    figure.suptitle("Information loss. Internal: not for publication", fontsize=10)
    figure.savefig(path, format="png", dpi=130)


_COLOURS = "YlOrRd"


def _panel(axis: Any, cells: Sequence[Cell], norm: Any) -> None:
    """One method's map; a method without clusters has a single row."""
    epsilons = sorted({cell.epsilon for cell in cells})
    ks = sorted({cell.k or 0 for cell in cells})
    grid = np.full((len(ks), len(epsilons)), np.nan)
    for cell in cells:
        row, column = ks.index(cell.k or 0), epsilons.index(cell.epsilon)
        grid[row, column] = shade = max(cell.loss, norm.vmin)
        colour = "white" if norm(shade) > 0.6 else "black"
        text = f"{cell.loss:.2g}"
        axis.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    axis.imshow(grid, norm=norm, cmap=_COLOURS, aspect="auto", origin="lower")
    axis.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
    axis.set_yticks(range(len(ks)), [str(k) if k else "–" for k in ks])
    axis.set_xlabel("epsilon")
    axis.set_ylabel("k" if any(ks) else "no clusters")
    axis.set_title(cells[0].method)
