"""Classification on generalised records, as section 5 of wang2020 measures it.

A table is divided at random into a training and a testing part (2:1), the training part is
generalised with noisy counts, the same cuts are applied to the testing part, a decision tree is
trained on the one and tested on the other; h = 10. The tree is scikit-learn's, on ordinal codes
for cuts of measured attributes and indicators for labels, where the paper took RapidMiner's.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from paper_protocol import PaperOracle
from sklearn.tree import DecisionTreeClassifier

import sherd
from sherd.methods.specialising import diffgen
from sherd.methods.specialising.arbdistdp import Agreement, cells_of, release
from sherd.methods.specialising.diffp_c45 import DiffPC45Classifier
from sherd.methods.specialising.partition import Partition, consistent
from sherd.methods.specialising.plain_oracle import ExactNoise, PlainOracle, part_of_code
from sherd.methods.specialising.specialise import specialise
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine
from sherd.tables.schema import Missing

H = 10
CLASSES = {"adult": "income", "nursery": "class"}
SUITED = {"adult": "max", "nursery": "gain"}
"""The utility that suits the table: many useless attributes, or few."""

TREES: dict[str, dict[str, float]] = {
    "pruned": {"ccp_alpha": 0.0005},
    "unpruned": {},
}
"""Both have RapidMiner's depth of 10; its way of pruning scikit-learn has not."""


@cache
def coded(name: str) -> tuple[Any, Any, diffgen.Settings, list[np.ndarray], np.ndarray]:
    """A table without missing cells, its schema, and its codes."""
    table = sherd.datasets.load(name, complete=True)
    schema = replace(sherd.datasets.schema(name), missing=Missing.REFUSE)
    chosen = diffgen.settings(plan(name, 1.0, SUITED[name]), schema)
    codes, classes = diffgen.encode(table, schema, chosen)
    return table, schema, chosen, codes, classes


def plan(name: str, epsilon: float, utility: str, **more: Any) -> sherd.Plan:
    """The plan of one run."""
    return sherd.Plan(
        method="diffgen", epsilon=epsilon, class_attribute=CLASSES[name], h=H, utility=utility,
        **more,
    )  # fmt: skip


def partition(
    name: str,
    epsilon: float,
    method: str,
    rows: np.ndarray,
    seed: int,
    *,
    utility: str,
    digits: int = 2,
    max_leaves: int = 100_000,
) -> Partition:
    """What a method makes of some rows: ``diffgen``, ``arbdistdp`` or ``printed``.

    ``printed`` is the paper's protocol in the clear: Max, ``digits`` digits kept (its l), and no
    limit of leaves but ``max_leaves``.
    """
    _, schema, _, codes, classes = coded(name)
    given = plan(name, epsilon, utility, max_leaves=max_leaves)
    chosen = diffgen.settings(given, schema)
    leaves = max_leaves if method == "printed" else chosen.leaves(given, len(rows))
    mine = [column[rows] for column in codes]
    return made(method, given, chosen, mine, classes[rows], seed, leaves=leaves, digits=digits)


def made(
    method: str,
    given: sherd.Plan,
    chosen: diffgen.Settings,
    codes: list[np.ndarray],
    classes: np.ndarray,
    seed: int,
    *,
    leaves: int,
    digits: int = 2,
) -> Partition:
    """What a method makes of these codes and classes, in at most so many leaves."""
    n = len(classes)
    budget = chosen.budget(given, n)
    if method == "arbdistdp":
        agreement = Agreement(
            hierarchies=chosen.hierarchies, class_name=given["class_attribute"],
            class_labels=chosen.class_labels, utility=chosen.utility, budget=budget,
            max_leaves=leaves,
        )  # fmt: skip
        holder = np.random.default_rng(seed).integers(0, 2, (n, len(codes)))
        engine = PlainEngine([Randomness.seeded(2 * seed), Randomness.seeded(2 * seed + 1)])
        held = [holder == party for party in (0, 1)]
        return release(engine, cells_of(codes, held), classes, agreement)
    source = Randomness.seeded(seed)
    sizes = [one.size for one in chosen.hierarchies]
    if method == "diffgen":
        oracle: Any = PlainOracle(
            codes, sizes, classes, len(chosen.class_labels), utility=chosen.utility, budget=budget,
            noise=ExactNoise(source),
        )  # fmt: skip
    else:
        oracle = PaperOracle(
            codes, sizes, classes, len(chosen.class_labels), epsilon=given.exact("epsilon"),
            choice=Fraction(given.exact("epsilon"), 2 * (budget.numeric + 2 * H)),
            randomness=source, digits=digits,
        )  # fmt: skip
    found = specialise(chosen.hierarchies, oracle, h=H, max_leaves=leaves)
    return Partition(
        hierarchies=chosen.hierarchies, specialised=found, class_name=given["class_attribute"],
        class_labels=chosen.class_labels, counts=oracle.count(found.cuts, found.choices),
    )  # fmt: skip


def features(found: Partition, parts: np.ndarray) -> np.ndarray:
    """Rows of interval numbers as a classifier takes them."""
    columns = []
    for a, one in enumerate(found.hierarchies):
        width = found.shape[a]
        indicators = not one.numeric and width > 2
        columns.append(np.eye(width)[parts[:, a]] if indicators else parts[:, [a]])
    return np.concatenate(columns, axis=1)


def tree(kind: str) -> DecisionTreeClassifier:
    """One of the trees, untrained."""
    return DecisionTreeClassifier(max_depth=10, random_state=0, **TREES[kind])


def accuracies(name: str, found: Partition, n: int, test: np.ndarray) -> dict[str, float]:
    """Train each tree on the generalised records, test on the others, generalised alike."""
    _, _, _, codes, classes = coded(name)
    weights = consistent(found.counts.ravel(), n)
    leaf = np.arange(found.leaves)
    rows = np.stack([found.parts(a, leaf) for a in range(len(found.shape))], axis=1)
    n_classes = found.counts.shape[1]
    x = np.repeat(features(found, rows), n_classes, axis=0)
    y = np.tile(np.arange(n_classes), found.leaves)
    used = weights > 0
    cuts = found.specialised.cuts
    mine = np.stack([part_of_code(c)[k[test]] for c, k in zip(cuts, codes, strict=True)], axis=1)
    asked = features(found, mine)
    told = {}
    for kind in TREES:
        model = tree(kind).fit(x[used], y[used], sample_weight=weights[used])
        told[kind] = float((model.predict(asked) == classes[test]).mean())
    return told


def divided(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random training and testing part."""
    rows = np.random.default_rng(seed).permutation(len(coded(name)[4]))
    return rows[: len(rows) * 2 // 3], rows[len(rows) * 2 // 3 :]


def interactive_accuracy(
    name: str, epsilon: float, train: np.ndarray, test: np.ndarray, seed: int
) -> float:
    """DiffP-C4.5, the interactive classifier, on the raw records."""
    table, schema, _, _, _ = coded(name)
    return interactive(table, schema, CLASSES[name], epsilon, train, test, seed)


def interactive(
    table: Any, schema: Any, target: str, epsilon: float, train: np.ndarray, test: np.ndarray,
    seed: int,
) -> float:  # fmt: skip
    """The interactive classifier's accuracy on a table's class."""
    y = np.array(table.column(target).to_pylist())
    model = DiffPC45Classifier(schema, target, epsilon=epsilon, max_depth=5, random_state=seed)
    return float(model.fit(table.take(train), y[train]).score(table.take(test), y[test]))


def bounds(name: str, seed: int) -> tuple[dict[str, float], float]:
    """BA and LA: each tree on the raw codes, and the most frequent class."""
    _, _, _, codes, classes = coded(name)
    x = np.stack(codes, axis=1)
    train, test = divided(name, seed)
    best = {}
    for kind in TREES:
        model = tree(kind).fit(x[train], classes[train])
        best[kind] = float((model.predict(x[test]) == classes[test]).mean())
    common = np.bincount(classes[train]).argmax()
    return best, float((classes[test] == common).mean())
