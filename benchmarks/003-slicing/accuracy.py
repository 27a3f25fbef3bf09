"""What a model learns from a release of Adult: train on the release, test on real people.

A third of Adult is held out. The rest is released; five record-level tables are drawn from
the release (relinked, or ranges sampled, so that all methods are compared on equal terms)
and one model is trained on all five. It is then asked about the held-out third as it is.
Salary by a decision tree, occupation (the sensitive attribute) by naive Bayes.

Paper 003 claims "20–35 % more classification accuracy" without describing its set-up; these
are ours.

    python benchmarks/003-slicing/accuracy.py [--seed N]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd import datasets
from sherd.audit.drawing import drawable
from sherd.method import Run
from sherd.plan import Plan
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

DRAWS = 5
LEAF = 20
PLANS: tuple[dict[str, Any], ...] = (
    {"method": "slice", "l": 2},
    {"method": "slice", "l": 3},
    {"method": "slice", "l": 3, "columns": 2},
    {"method": "slice", "l": 3, "regroup": True},
    {"method": "slice", "l": 5},
    {"method": "slice", "l": 5, "regroup": True},
    {"method": "slice", "l": 5, "columns": 2, "regroup": True, "min_frequency": 20},
    {"method": "anatomy", "l": 3},
    {"method": "anatomy", "l": 5},
    {"method": "mondrian", "k": 3, "l": 3},
    {"method": "mondrian", "k": 5, "l": 5},
    {"method": "mondrian", "k": 10},
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Adult cut into a part to release and one to test on, and how cells become features."""

    schema: Schema
    train: pa.Table
    test: pa.Table
    cuts: dict[str, NDArray[np.float64]]

    @classmethod
    def adult(cls, seed: int) -> Task:
        """A random third held out; the sampling weight left out."""
        schema = datasets.schema("adult")
        kept = {name: a for name, a in schema.attributes.items() if name != "fnlwgt"}
        table = datasets.load("adult", complete=True).drop_columns(["fnlwgt"])
        rows = np.random.default_rng(seed).permutation(table.num_rows)
        held = table.num_rows // 3
        train = table.take(pa.array(rows[held:]))
        measured = [name for name in kept if kept[name].type.measured]
        steps = np.linspace(0, 1, 11)[1:-1]
        cuts = {name: np.unique(np.quantile(train[name].to_numpy(), steps)) for name in measured}
        return cls(
            schema=replace(schema, attributes=kept),
            train=train,
            test=table.take(pa.array(rows[:held])),
            cuts=cuts,
        )

    def features(self, table: pa.Table, target: str, *, binned: bool) -> NDArray[np.float64]:
        """Every attribute but the target as a number; measured ones in tenths if asked."""
        columns = []
        for name, attribute in self.schema.attributes.items():
            if name == target:
                continue
            if name in self.cuts:
                cells = table[name].to_numpy().astype(float)
                columns.append(
                    np.searchsorted(self.cuts[name], cells, "right") if binned else cells
                )
            else:
                codes = {label: i for i, label in enumerate(attribute.labels or ())}
                columns.append(np.array([codes[cell] for cell in table[name].to_pylist()]))
        return np.column_stack(columns)

    def salary(self, table: pa.Table, weight: int = 1) -> float:
        """Accuracy of a decision tree for salary; ``weight`` tables were put together."""
        from sklearn.tree import DecisionTreeClassifier

        tree = DecisionTreeClassifier(min_samples_leaf=LEAF * weight, random_state=0)
        tree.fit(self.features(table, "income", binned=False), table["income"].to_pylist())
        found = tree.predict(self.features(self.test, "income", binned=False))
        return float(np.mean(found == np.array(self.test["income"].to_pylist())))

    def occupation(self, table: pa.Table) -> float:
        """Accuracy of naive Bayes for occupation."""
        from sklearn.naive_bayes import CategoricalNB

        sizes = [
            len(self.cuts[name]) + 1 if name in self.cuts else len(a.labels or ())
            for name, a in self.schema.attributes.items()
            if name != "occupation"
        ]
        bayes = CategoricalNB(min_categories=sizes)
        target = table["occupation"].to_pylist()
        bayes.fit(self.features(table, "occupation", binned=True), target)
        found = bayes.predict(self.features(self.test, "occupation", binned=True))
        return float(np.mean(found == np.array(self.test["occupation"].to_pylist())))

    def learned(self, randomness: Randomness, **parameters: Any) -> tuple[float, float]:
        """Both accuracies of models trained on a release."""
        plan = Plan(sensitive=["occupation"], **parameters)
        plan.check(self.schema)
        outcome = plan.spec.run(self.train, self.schema, plan, Run(randomness=randomness))
        manifest = {"plan": plan.as_data(), "schema": self.schema.as_data(), "facts": outcome.facts}
        release = drawable(outcome.tables, manifest)
        together = pa.concat_tables(list(release.draw(randomness, DRAWS)))
        return self.salary(together, DRAWS), self.occupation(together)


def main() -> None:
    """The table of all plans."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    task = Task.adult(given.seed)
    raw = task.salary(task.train), task.occupation(task.train)
    common = max(np.unique(task.train["income"].to_pylist(), return_counts=True)[1])
    print(f"{task.train.num_rows:,} rows released, {task.test.num_rows:,} to test on")
    print(f"{'':66}{'salary':>8}{'occupation':>12}")
    print(f"{'raw':66}{raw[0]:8.3f}{raw[1]:12.3f}")
    print(f"{'always the most frequent salary':66}{common / task.train.num_rows:8.3f}")
    for parameters in PLANS:
        name = " ".join(str(v) if k == "method" else f"{k}={v}" for k, v in parameters.items())
        salary, occupation = task.learned(Randomness.seeded(given.seed), **parameters)
        print(f"{name:66}{salary:8.3f}{occupation:12.3f}")


if __name__ == "__main__":
    main()
