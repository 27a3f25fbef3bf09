"""Arul et al. 2019: privacy preservation of micro data publishing using fragmentation (section 5).

The paper names no dataset, no parameters, no axes with numbers and no baselines beyond "existing";
what it plots is read here as section 4 and its source (li2012) suggest: Adult (45,222 complete
records; occupation sensitive; the sampling weight left out), slicing into three columns, Mondrian
as generalisation, Anatomy as bucketisation, the same l for all. Each point is the mean of runs
with their own division of the table and their own random numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import sliced_measures
import slicing_claims
from learned import MORE, Task
from plots import curves, flat_bars
from reproduction import Figure, Rows, Setting
from sliced_measures import METHODS

from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE = "Privacy preservation of micro data publishing using fragmentation"
ABOUT = (
    "Arul, Vairavel, Prakash and Kousik, 2019. Column size, classification accuracy and tuple "
    "partition rate of slicing (there called fragmentation) beside generalisation and "
    "bucketisation, and membership disclosure."
)
L = 5
LS = (2, 3, 5, 7)
SHORT_LS = (3, 5)
MORES = (2, 4, 6, 8, 10, 12)
SHORT_MORES = (2, 6, 12)
RECORDS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
"""Doubled, since buckets are halved: between these the rate goes up and down like a saw."""

SHORT_RECORDS = (1_000, 8_000, 32_000)
FREQUENCIES = {"no least frequency": None, "least frequency 5": 5, "least frequency 20": 20}
COLUMNS = (sliced_measures.COLUMNS, 2, 5)
ALL = len(MORE)
FIXED = 2  # occupation and salary are always there

READINGS = {
    "size": slicing_claims.SIZES,
    "existing": slicing_claims.EXISTING,
    "grouping": ("as printed", "regrouped"),
    "learned": slicing_claims.LEARNED,
    "rate": ("buckets a record", "records a second"),
    "frequency": tuple(FREQUENCIES),
    "columns": tuple(f"{columns} columns" for columns in COLUMNS),
}
READINGS_ABOUT = {
    "size": "The paper does not say what the size of a column is: attributes or different values, "
    "of the largest column or a column on average.",
    "existing": "“Existing” is one line in each figure; its introduction names these two.",
    "grouping": "Algorithm Tuple-Partition as printed, or with the tuple grouping that only the "
    "conclusion speaks of.",
    "learned": "The attribute that is predicted: occupation (the sensitive one, which all three "
    "methods release as it is) by naive Bayes, salary by a decision tree. If salary is masked "
    "like the others, generalisation blurs what is to be predicted; if it is released as it is, "
    "slicing gives it a column of its own.",
    "rate": "Buckets divided by records, or how fast tuples are partitioned.",
    "frequency": "Column generalisation until every value of a column occurs so often; the paper "
    "calls this phase not indispensable, and useful against membership disclosure, and claims "
    "without it that membership is hidden: so verdicts go by no least frequency.",
    "columns": "How many columns; three as in the figures, or fewer, or more.",
}


def seeds(setting: Setting, short: int = 2) -> range:
    """The runs of one point; the paper does not say how many it had."""
    first = 100 + 1000 * setting.seed
    return range(first, first + setting.count(5, short))


def means(each: Iterable[dict[str, float]]) -> dict[str, float]:
    """The mean of every number over runs, and its standard error."""
    seen = list(each)
    found: dict[str, float] = {}
    for name in seen[0]:
        values = [one[name] for one in seen]
        found[name] = float(np.mean(values))
        found[f"{name}, error"] = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return found | {"runs": len(seen)}


def figure_1(setting: Setting) -> Rows:
    """Column size over the number of attributes."""
    # Regrouping changes buckets, not columns.
    methods = [method for method in METHODS if not method.endswith("regrouped")]
    cells = [(more, method) for more in MORES for method in methods]
    rows: Rows = []
    for done, (more, method) in enumerate(cells, 1):
        told = []
        for seed in seeds(setting):
            task = Task.adult(seed, rows=8_000 if setting.quick else None, more=more)
            given = sliced_measures.parameters(method, L)
            told.append(
                sliced_measures.column_sizes(*task.released(Randomness.seeded(seed), **given))
            )
        rows.append({"method": method, "attributes": more + FIXED, "l": L, **means(told)})
        setting.progress("column size", done, len(cells))
    return rows


def figure_2(setting: Setting) -> Rows:
    """Classification accuracy over the number of attributes, and over l."""
    points = [("attributes", more, L) for more in setting.grid(MORES, SHORT_MORES)]
    points += [("l", ALL, l) for l in setting.grid(LS, SHORT_LS)]  # noqa: E741 - the field's name
    cells = [(point, method, as_it_is) for point in points for method in ("raw data", *METHODS)
             for as_it_is in (False, True)]  # fmt: skip
    rows: Rows = []
    known: dict[Any, dict[str, float]] = {}
    for done, ((axis, more, l), method, as_it_is) in enumerate(cells, 1):  # noqa: E741
        place = (more, l, method, as_it_is)
        if method == "raw data":  # the same whatever is done to others
            place = (more, L, method, False)
        if place not in known:
            known[place] = means(_learned(setting, *place))
        masked, kept = slicing_claims.LEARNED[1:]
        for target in (kept,) if as_it_is else (slicing_claims.LEARNED[0], masked):
            told = known[place]
            name = target.split(",")[0]
            rows.append(
                {"over": axis, "method": method, "learned": target, "attributes": more + FIXED,
                 "l": l, "accuracy": told[name], "accuracy, error": told[f"{name}, error"],
                 "runs": told["runs"]}
            )  # fmt: skip
        setting.progress("classification", done, len(cells))
    return rows


def _learned(
    setting: Setting,
    more: int,
    l: int,  # noqa: E741 - the field's name
    method: str,
    as_it_is: bool,
) -> Iterable[dict[str, float]]:
    rows = 8_000 if setting.quick else None
    for seed in seeds(setting):
        task = Task.adult(seed, rows=rows, more=more, as_it_is=as_it_is)
        if method == "raw data":
            told = task.salary(task.train), task.occupation(task.train)
        else:
            given = sliced_measures.parameters(method, l)
            told = task.learned(Randomness.seeded(seed), **given)
        yield dict(zip(("salary", "occupation"), told, strict=True))


def figure_3(setting: Setting) -> Rows:
    """Tuple partition rate over the number of tuples."""
    ls = setting.grid((3, 5), (3,))
    cells = [(n, method, l) for l in ls for method in METHODS  # noqa: E741 - the field's name
             for n in setting.grid(RECORDS, SHORT_RECORDS)]  # fmt: skip
    for method in METHODS:  # imports, and compiles where the cache is empty
        sliced_measures.partition_rate(Task.adult(0, rows=1_000), method, 3, 0)
    rows: Rows = []
    for done, (n, method, l) in enumerate(cells, 1):  # noqa: E741
        told = means(
            sliced_measures.partition_rate(Task.adult(seed, rows=n, all_rows=True), method, l, seed)
            for seed in seeds(setting, 4)
        )
        rows.append({"method": method, "tuples": n, "l": l, **told})
        setting.progress("tuple partition rate", done, len(cells))
    return rows


def membership(setting: Setting) -> Rows:
    """How well members can be told from real people who were not released; homogeneity."""
    rows: Rows = []
    cells = [(columns, frequency) for columns in COLUMNS for frequency in FREQUENCIES]
    for done, (columns, frequency) in enumerate(cells, 1):
        told = []
        for seed in seeds(setting):
            task = Task.adult(seed, all_rows=True)
            told.append(sliced_measures.disclosed(task, 3, columns, FREQUENCIES[frequency], seed))
        title = f"slicing, {columns} columns, {frequency}"
        rows.append({"release": title, "method": "slicing", "columns": f"{columns} columns",
                     "frequency": frequency, "least": FREQUENCIES[frequency] or 1,
                     **means(told)})  # fmt: skip
        setting.progress("membership", done, len(cells) + 2)
    told = [
        sliced_measures.other_advantages(Task.adult(seed, all_rows=True), 3, seed)
        for seed in seeds(setting)
    ]
    for method in ("generalisation", "bucketisation"):
        own = means({"advantage": one[method]} for one in told)
        rows.append({"release": method, "method": method, **own})
    alone = means(
        {"homogeneous": sliced_measures.homogeneous(Task.adult(seed), 5, seed)}
        for seed in seeds(setting)
    )
    rows.append({"release": "k-anonymity, k = 5", "method": "k-anonymity", **alone})
    setting.progress("membership", len(cells) + 2, len(cells) + 2)
    return rows


def _sizes(rows: Rows, *, size: str) -> Any:
    shown = [{**r, "panel": f"Adult, l = {L}"} for r in rows]
    return curves(shown, "attributes", size, "method", "panel", log=size.startswith("values"))


def _accuracies(rows: Rows, *, learned: str) -> Any:
    panels = {"attributes": f"{learned}: over attributes, l = {L}",
              "l": f"{learned}: over l, {ALL + FIXED} attributes"}  # fmt: skip
    shown = [{**r, "panel": panels[r["over"]], "x": r[r["over"]]}
             for r in rows if r["learned"] == learned]  # fmt: skip
    figure = curves(shown, "x", "accuracy", "method", "panel", log=False,
                    x_labels={panels["attributes"]: "number of attributes", panels["l"]: "l"},
                    across=2)  # fmt: skip
    for axis in figure.axes:  # neither counts in halves
        axis.xaxis.get_major_locator().set_params(integer=True)
    return figure


def _rates(rows: Rows, *, rate: str) -> Any:
    shown = [{**r, "panel": f"l = {r['l']}"} for r in rows]
    return curves(shown, "tuples", rate, "method", "panel", log=False)


def _advantages(rows: Rows) -> Any:
    return flat_bars([r for r in rows if "advantage" in r], "release", "advantage")


FIGURES = (
    Figure(number="1", title="Column size", compute=figure_1, draw=_sizes, switches=("size",)),
    Figure(number="2", title="Classification accuracy", compute=figure_2, draw=_accuracies,
           switches=("learned",),
           readings="A third of Adult is held out; models are trained on five tables drawn from "
           "each release and tested on the real records held out."),
    Figure(number="3", title="Tuple partition rate", compute=figure_3, draw=_rates,
           switches=("rate",)),
    Figure(number="M", title="Membership disclosure (sections 2 to 4; no figure of the paper)",
           compute=membership, draw=_advantages,
           readings="The advantage over guessing of the best threshold attack, measured with real "
           "people who were not in the release; l = 3."),
)  # fmt: skip
CLAIMS = slicing_claims.CLAIMS
