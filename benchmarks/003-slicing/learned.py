"""What a model learns from a release of Adult: train on the release, test on real people.

A third of Adult is held out. The rest is released; five record-level tables are drawn from
the release (relinked, or ranges sampled, so that all methods are compared on equal terms)
and one model is trained on all five. It is then asked about the held-out third as it is.
Salary by a decision tree, occupation (the sensitive attribute) by naive Bayes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd import datasets
from sherd.auditing.case.record_drawing import drawable
from sherd.release.method import Run
from sherd.release.plan import Plan
from sherd.tables.schema import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.randomness import Randomness
    from sherd.release.method import Outcome
    from sherd.tables.schema import Schema

DRAWS = 5
LEAF = 20
SENSITIVE = "occupation"
TARGET = "income"
MORE = (
    "age", "workclass", "education", "education_num", "marital_status", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
)  # fmt: skip
"""The attributes besides the two that are learned, in the table's order; no sampling weight."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Adult cut into a part to release and one to test on, and how cells become features."""

    schema: Schema
    train: pa.Table
    test: pa.Table
    cuts: dict[str, NDArray[np.float64]]

    @classmethod
    def adult(
        cls,
        seed: int,
        *,
        rows: int | None = None,
        more: int = len(MORE),
        as_it_is: bool = False,
        all_rows: bool = False,
    ) -> Task:
        """A random third held out, unless all rows are asked for; ``more`` attributes.

        At most ``rows`` are released.

        Salary is a quasi-identifier like the others unless it is released as it is.
        """
        schema = datasets.schema("adult")
        names = [n for n in schema.attributes if n in (*MORE[:more], SENSITIVE, TARGET)]
        kept = {name: schema[name] for name in names}
        role = Role.INSENSITIVE if as_it_is else Role.QUASI_IDENTIFIER
        kept[TARGET] = replace(kept[TARGET], role=role)
        table = datasets.load("adult", complete=True).select(names)
        order = np.random.default_rng(seed).permutation(table.num_rows)
        held = 0 if all_rows else table.num_rows // 3
        train = table.take(pa.array(order[held:][:rows]))
        measured = [name for name in kept if kept[name].type.measured]
        steps = np.linspace(0, 1, 11)[1:-1]
        cuts = {name: np.unique(np.quantile(train[name].to_numpy(), steps)) for name in measured}
        return cls(
            schema=replace(schema, attributes=kept),
            train=train,
            test=table.take(pa.array(order[:held])),
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
                labels = pa.array(attribute.labels or (), pa.string())
                columns.append(pc.index_in(table[name].cast(pa.string()), labels).to_numpy())
        return np.column_stack(columns)

    def salary(self, table: pa.Table, weight: int = 1) -> float:
        """Accuracy of a decision tree for salary; ``weight`` tables were put together."""
        from sklearn.tree import DecisionTreeClassifier

        tree = DecisionTreeClassifier(min_samples_leaf=LEAF * weight, random_state=0)
        tree.fit(self.features(table, TARGET, binned=False), table[TARGET].to_pylist())
        found = tree.predict(self.features(self.test, TARGET, binned=False))
        return float(np.mean(found == np.array(self.test[TARGET].to_pylist())))

    def occupation(self, table: pa.Table) -> float:
        """Accuracy of naive Bayes for occupation."""
        from sklearn.naive_bayes import CategoricalNB

        sizes = [
            len(self.cuts[name]) + 1 if name in self.cuts else len(a.labels or ())
            for name, a in self.schema.attributes.items()
            if name != SENSITIVE
        ]
        bayes = CategoricalNB(min_categories=sizes)
        target = table[SENSITIVE].to_pylist()
        bayes.fit(self.features(table, SENSITIVE, binned=True), target)
        found = bayes.predict(self.features(self.test, SENSITIVE, binned=True))
        return float(np.mean(found == np.array(self.test[SENSITIVE].to_pylist())))

    def released(self, randomness: Randomness, **parameters: Any) -> tuple[Plan, Outcome]:
        """A release of the training part."""
        plan = Plan(sensitive=[SENSITIVE], **parameters)
        plan.check(self.schema)
        return plan, plan.spec.run(self.train, self.schema, plan, Run(randomness=randomness))

    def learned(self, randomness: Randomness, **parameters: Any) -> tuple[float, float]:
        """Both accuracies of models trained on a release."""
        plan, outcome = self.released(randomness, **parameters)
        release = drawable(outcome.tables, self.manifest(plan, outcome))
        together = pa.concat_tables(list(release.draw(randomness, DRAWS)))
        return self.salary(together, DRAWS), self.occupation(together)

    def manifest(self, plan: Plan, outcome: Outcome) -> dict[str, Any]:
        """What drawing and verifying need to know of a release."""
        return {
            "plan": plan.as_data(), "schema": self.schema.as_data(), "facts": outcome.facts,
        }  # fmt: skip
