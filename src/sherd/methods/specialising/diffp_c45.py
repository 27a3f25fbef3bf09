"""``diffp-c45``: a decision tree under differential privacy, as a scikit-learn classifier.

friedman2010 (Algorithm 2, SuLQ-based C4.5 with the exponential mechanism): the baseline that
wang2020 compares with. The tree grows from the root; at each node the number of records is
counted with noise, every measured attribute's split point and then the attribute are chosen
under differential privacy, and the leaves' class counts get noise. Growing stops where the
noisy count shows that deeper counts would drown in noise. At last the tree is pruned by
C4.5's pessimistic error, computed from the noisy counts.

Budget. Neighbours differ in one substituted record, which leaves one path from the root and
enters another. With rate r everywhere, each path costs at most r for the count, r for every
measured attribute's split and r for the choice on each of the d levels, and 2r at the leaf:
utilities are monotone when a record is added or removed, so a choice with rate r/Δ costs r and
not 2r. Two paths cost 2r((2 + d_num) d + 2) = epsilon.

Departs from the paper in that: everything is calibrated to substitution, so that the class is
covered and the number of records is public; split points come from a public grid of the
declared domain, never from the data; choices are permute-and-flip; labels follow the schema's
taxonomies level by level; noise is discrete and exact. Classes and domains come from the
schema, so that what ``fit`` sees of them costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sherd.errors import PlanError, TableError
from sherd.methods.specialising.hierarchy import BINS, Hierarchy
from sherd.methods.specialising.plain_oracle import ExactNoise, Histograms
from sherd.methods.specialising.scores import monotone_change, scores
from sherd.methods.specialising.specialise import Candidate, split_candidates
from sherd.randomness import Randomness

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

CRITERIA = ("max", "purity")
_CONFIDENCE = 0.6744897501960817  # C4.5's 25 %: the normal quantile of 0.75
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A node of the tree: its noisy class counts, and how it is split where it is."""

    counts: NDArray[np.float64]
    split: Candidate | None = None
    children: tuple[Branch, ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves are below."""
        return sum(child.leaves for child in self.children) or 1


class DiffPC45Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A decision tree whose every released number is differentially private.

    ``schema`` declares the features and the class (named by ``target``): domains, labels and
    taxonomies, all public. ``fit`` takes a dataframe or Arrow table (or an array whose columns
    are the schema's features in order) and the classes. ``random_state`` is for tests: a tree
    grown with it carries no guarantee.
    """

    def __init__(
        self,
        schema: Schema,
        target: str,
        *,
        epsilon: float = 1.0,
        max_depth: int = 5,
        criterion: str = "max",
        bins: int = BINS,
        prune: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.schema = schema
        self.target = target
        self.epsilon = epsilon
        self.max_depth = max_depth
        self.criterion = criterion
        self.bins = bins
        self.prune = prune
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> DiffPC45Classifier:  # noqa: N803 - scikit-learn's name
        """Grow the tree; costs epsilon of everybody in the table."""
        self._check()
        names = [name for name in self.schema.protected if name != self.target]
        hierarchies = tuple(Hierarchy.of(self.schema[name], bins=self.bins) for name in names)
        labels = self.schema[self.target].labels or ("false", "true")
        place = {label: i for i, label in enumerate(labels)}
        given = [str(label) for label in np.asarray(y).ravel().tolist()]
        if not set(given) <= set(place):
            raise TableError(
                "there are classes that the schema does not list", must="one of its values"
            )
        classes = np.array([place[label] for label in given], np.int64)
        self.hierarchies_ = hierarchies
        self.classes_ = np.array(labels)
        self.n_features_in_ = len(names)
        codes = self._codes(X)
        if len(codes[0]) != len(classes):
            raise TableError(
                "features and classes differ in length",
                must="one class for each row of features",
            )
        grower = _Grower(
            hierarchies=hierarchies,
            n_classes=len(labels),
            criterion=self.criterion,
            rate=rate_of(
                Fraction(repr(float(self.epsilon))),
                self.max_depth,
                sum(one.numeric for one in hierarchies),
            ),
            randomness=Randomness.from_system()
            if self.random_state is None
            else Randomness.seeded(self.random_state),
            change=monotone_change(self.criterion, len(classes)),
        )
        everything: Box = tuple((0, one.size) for one in hierarchies)
        tree = grower.grow(codes, classes, everything, self.max_depth)
        self.tree_ = pruned(tree) if self.prune else tree
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 - the same
        """Each record's share of the classes in its leaf."""
        check_is_fitted(self)
        codes = self._codes(X)
        shares = np.zeros((len(codes[0]), len(self.classes_)))

        def walk(branch: Branch, rows: NDArray[np.int64]) -> None:
            if branch.split is None:
                total = branch.counts.sum()
                shares[rows] = branch.counts / total if total > 0 else 1 / shares.shape[1]
                return
            edges = np.array(branch.split.edges)
            side = np.searchsorted(edges, codes[branch.split.attribute][rows], side="right") - 1
            for part, child in enumerate(branch.children):
                walk(child, rows[side == part])

        walk(self.tree_, np.arange(shares.shape[0]))
        return shares

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803 - the same
        """Each record's most likely class."""
        likely = np.argmax(self.predict_proba(X), axis=1)
        chosen: NDArray[Any] = self.classes_[likely]
        return chosen

    def _check(self) -> None:
        for name, least in (("max_depth", 1), ("bins", 2)):
            if getattr(self, name) < least:
                raise PlanError(
                    f"the '{name}' parameter is not valid", must=f"a whole number from {least}"
                )
        if not self.epsilon > 0:
            raise PlanError("the 'epsilon' parameter is not valid", must="a number above 0")
        if self.criterion not in CRITERIA:
            raise PlanError(
                "the 'criterion' parameter is not valid", must="one of " + ", ".join(CRITERIA)
            )

    def _codes(self, X: Any) -> list[NDArray[np.int64]]:  # noqa: N803 - the same
        table = _table(X, [one.name for one in self.hierarchies_])
        return [one.codes(table.column(one.name)) for one in self.hierarchies_]


def rate_of(epsilon: Fraction, depth: int, numeric: int) -> Fraction:
    """The rate r of every draw, such that two paths cost epsilon.

    >>> rate_of(Fraction(1), 5, 6)
    Fraction(1, 84)
    """
    return epsilon / (2 * ((2 + numeric) * depth + 2))


@dataclass(frozen=True, kw_only=True)
class _Grower:
    """What growing needs at every node; ``change`` is the utility's per added record."""

    hierarchies: tuple[Hierarchy, ...]
    n_classes: int
    criterion: str
    rate: Fraction
    randomness: Randomness
    change: int

    def grow(
        self,
        codes: list[NDArray[np.int64]],
        classes: NDArray[np.int64],
        box: Box,
        depth: int,
    ) -> Branch:
        """The tree below a node that holds these records."""
        fan = max((len(c) - 1 for c in self._children(box)), default=0)
        if depth == 0 or fan == 0:
            return self._leaf(classes)
        size = len(classes) + int(self._laplace(1)[0])
        # Friedman and Schuster: stop where counts would be below the noise's deviation.
        if size / (fan * self.n_classes) < math.sqrt(2) / float(self.rate):
            return self._leaf(classes)
        split = self._choose(codes, classes, box)
        side = np.searchsorted(np.array(split.edges), codes[split.attribute], side="right") - 1
        children = []
        for part in range(split.fan):
            rows = side == part
            narrower = (split.edges[part], split.edges[part + 1])
            inside = (*box[: split.attribute], narrower, *box[split.attribute + 1 :])
            below = [column[rows] for column in codes]
            children.append(self.grow(below, classes[rows], inside, depth - 1))
        total: NDArray[np.float64] = np.sum([child.counts for child in children], axis=0)
        return Branch(counts=total, split=split, children=tuple(children))

    def _children(self, box: Box) -> list[tuple[int, ...]]:
        """Edges of every way a node can be split; a split of two for measured attributes."""
        children: list[tuple[int, ...]] = []
        for one, (start, stop) in zip(self.hierarchies, box, strict=True):
            if not one.numeric:
                children += [one.children[start, stop]] if (start, stop) in one.children else []
            elif stop - start > 1:
                children.append((start, start + 1, stop))
        return children

    def _leaf(self, classes: NDArray[np.int64]) -> Branch:
        exact = np.bincount(classes, minlength=self.n_classes)
        noisy = np.maximum(exact + self._laplace(self.n_classes), 0)
        return Branch(counts=noisy.astype(np.float64))

    def _laplace(self, n: int) -> NDArray[np.int64]:
        return self.randomness.discrete_laplace(self.rate.denominator, self.rate.numerator, n)

    def _choose(
        self, codes: list[NDArray[np.int64]], classes: NDArray[np.int64], box: Box
    ) -> Candidate:
        """Split points of the measured attributes first, then the attribute."""
        sizes = [one.size for one in self.hierarchies]
        histograms = Histograms.of(codes, sizes, classes, self.n_classes)
        noise = ExactNoise(self.randomness)

        def best(group: list[Candidate]) -> Candidate:
            children, first = histograms.children(group)
            utilities = scores(self.criterion, children, first)
            return group[noise.largest([utilities], self.rate / self.change)[0]]

        candidates = []
        for a, (one, (start, stop)) in enumerate(zip(self.hierarchies, box, strict=True)):
            if one.numeric and stop - start > 1:
                candidates.append(best(split_candidates(a, start, stop)))
            elif (start, stop) in one.children:
                candidates.append(Candidate(attribute=a, edges=one.children[start, stop]))
        return best(candidates)


def pruned(branch: Branch) -> Branch:
    """The tree without splits that C4.5's pessimistic error does not justify."""
    if branch.split is None:
        return branch
    children = tuple(pruned(child) for child in branch.children)
    if pessimistic(branch.counts) <= sum(_errors(child) for child in children):
        return Branch(counts=branch.counts)
    return replace(branch, children=children)


def _errors(branch: Branch) -> float:
    if branch.split is None:
        return pessimistic(branch.counts)
    return sum(_errors(child) for child in branch.children)


def pessimistic(counts: NDArray[np.float64]) -> float:
    """How many records a leaf gets wrong, at the upper end of C4.5's confidence interval.

    >>> round(pessimistic(np.array([100.0, 0.0])), 2), round(pessimistic(np.array([50.0, 50.0])))
    (0.45, 53)
    """
    n = float(counts.sum())
    if n <= 0:
        return 0.0
    share, z = 1 - float(counts.max()) / n, _CONFIDENCE
    spread = z * math.sqrt(share / n - share**2 / n + z**2 / (4 * n**2))
    return n * (share + z**2 / (2 * n) + spread) / (1 + z**2 / n)


def _table(X: Any, names: list[str]) -> pa.Table:  # noqa: N803 - scikit-learn's name
    import pyarrow as pa

    from sherd.tables.frames import to_arrow

    if isinstance(X, (np.ndarray, list)):
        array = np.asarray(X)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise TableError(
                "the array does not fit the schema", must=f"{len(names)} columns of features"
            )
        return pa.table({name: pa.array(array[:, i].tolist()) for i, name in enumerate(names)})
    table = to_arrow(X)
    absent = [name for name in names if name not in table.column_names]
    if absent:
        raise TableError("features are missing: " + ", ".join(absent), must="those of the schema")
    return table
