"""The case under audit: original, release and control as numbers, on one scale an attribute.

Everything the measures look at is here; they never see a table. Columns are arrays of
numbers (see ``scale``), so that a million rows of ten attributes take 80 MB a side.

``OwnFindings`` is what a method itself says of a release's risk; the audit is never more lenient
than that. The owner is told the findings when a release is made, and they are not saved with it.
For a release read from its folder, those of a shadow release by the same plan stand in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.release.method import REAL_SPEND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.record_drawing import Drawable
    from sherd.auditing.epsilon.mechanism import Mechanism
    from sherd.release.method import Finding
    from sherd.tables.number_scale import Scale
    from sherd.tables.schema import Schema


Columns = dict[str, "NDArray[np.float64]"]


@dataclass(frozen=True, kw_only=True)
class OwnFindings:
    """The worst of a method's own findings.

    ``risk`` is what an attacker gains, as a share of what is possible, by the finding called
    ``name``, about what ``basis`` says (the release itself if empty); ``spent`` the epsilon that
    the release really spends, 0 where nobody said.
    """

    risk: float = 0.0
    name: str = ""
    spent: float = 0.0
    basis: str = ""

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> OwnFindings:
        """The worst of some findings.

        >>> from sherd.release.method import Finding
        >>> one = Finding(name="membership advantage", value=0.9, meaning="bad", risk=0.9)
        >>> OwnFindings.of([one]).risk
        0.9
        """
        worst = cls()
        for one in findings:
            spent = float(one.value) if one.name == REAL_SPEND else 0.0
            worst = worst.worst(cls(risk=one.risk or 0.0, name=one.name, spent=spent))
        return worst

    def worst(self, other: OwnFindings) -> OwnFindings:
        """The worse of two, each part by itself."""
        risky = other if other.risk > self.risk else self
        return replace(risky, spent=max(self.spent, other.spent))

    def about_another(self, basis: str) -> OwnFindings:
        """The same as said of another release: its risks are alike, what it spends is its own."""
        return replace(self, spent=0.0, basis=basis)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much is computed before the audit turns to samples; a measure says where it did.

    ``pairs`` and ``triples`` are how many sets of attributes are looked at together, ``secrets``
    how many attributes are guessed from all others, ``runs`` how often a method is run on each
    of two small tables to measure epsilon, ``rounds`` how often the unseeded attack on row
    structure improves its guess (0: not run). Above ``rows`` records a sample of so many is
    looked at (see ``row_sample``).
    """

    rows: int = 200_000
    attacked: int = 2_000
    modelled: int = 20_000
    compared: int = 20_000
    queries: int = 300
    pairs: int = 2_000
    triples: int = 60
    secrets: int = 20
    runs: int = 3_000
    rounds: int = 8


@dataclass(frozen=True, kw_only=True)
class Control:
    """A release whose members and non-members are known, to attack with a control group.

    Where ``shadow`` is true it was made for this purpose by running the same plan on a
    random half of the original; otherwise it is the release itself and a hold-out table.
    ``without`` is what of the plan could not be run again; ``order`` the member behind each
    released row of a shadow made of records; ``source`` what its records were drawn from;
    ``own`` what the method itself found of the shadow's risk.
    """

    members: Columns
    outsiders: Columns
    released: Columns
    shadow: bool
    without: str = ""
    order: NDArray[np.int64] | None = None
    source: Drawable | None = None
    own: OwnFindings = field(default_factory=OwnFindings)

    @property
    def words(self) -> str:
        """Where the control group comes from."""
        if self.shadow:
            run = f"the same plan{self.without and f', {self.without},'} run"
            return f"{run} on a random half of the table; the other half is the control"
        return "the release itself; the hold-out table is the control"


@dataclass(frozen=True, kw_only=True)
class Case:
    """What an audit knows.

    ``order[i]`` is the original row behind released row i, None where nobody said.
    ``released`` holds records drawn from the release, ``rows`` whether they are the
    release's own rows, and ``drawn`` whether the method drew these itself, so that none stands for
    a record; where they were drawn out of slices, fragments or centroids, ``drawable`` is what
    they were drawn from. ``mechanisms`` is what the plan says was done
    to each attribute that was masked by ranking and noise. ``whole`` is how many records table and
    release have where this case holds a sample of them.
    """

    schema: Schema
    scales: Mapping[str, Scale]
    original: Columns
    released: Columns
    drawable: Drawable | None = None
    rows: bool = True
    drawn: bool = False
    order: NDArray[np.int64] | None = None
    holdout: Columns | None = None
    control: Control | None = None
    target: str | None = None
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    mechanisms: Mapping[str, Mechanism] = field(default_factory=dict)
    whole: tuple[int, int] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every attribute that is on both sides."""
        return tuple(self.released)

    @property
    def protected(self) -> tuple[str, ...]:
        """The attributes on both sides that were masked."""
        return tuple(name for name in self.names if self.schema[name].role.protected)

    @property
    def records(self) -> bool:
        """Whether each released row stands for one original."""
        return self.rows and not self.drawn

    @property
    def clustered(self) -> bool:
        """Whether released rows are records that share the values of their clusters."""
        return self.rows and any(one.clusters for one in self.mechanisms.values())

    def matched(self) -> tuple[Columns, Columns, NDArray[np.int64]] | None:
        """Originals, released rows and which belong together: of the release, or of a shadow.

        A sample of a release has no whole clusters: there it is the shadow's.
        """
        if self.order is not None and self.whole is None:
            return self.original, self.released, self.order
        shadow = self.control
        if shadow is None or shadow.order is None:
            return None
        return shadow.members, shadow.released, shadow.order

    @property
    def n(self) -> int:
        """The number of original records."""
        return height(self.original)

    @property
    def n_released(self) -> int:
        """The number of released records."""
        return height(self.released)

    @property
    def table_rows(self) -> int:
        """The number of original records, those outside a sample included."""
        return self.n if self.whole is None else self.whole[0]

    @property
    def release_rows(self) -> int:
        """The number of released records, those outside a sample included."""
        return self.n_released if self.whole is None else self.whole[1]

    def rng(self, purpose: str) -> np.random.Generator:
        """Random numbers for one purpose: the audit's choices can be repeated."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    def pairs(self) -> tuple[Columns, Columns]:
        """Original and released columns with row i of one behind row i of the other."""
        assert self.order is not None, "asked for pairs without knowing them"
        return {n: c[self.order] for n, c in self.original.items()}, self.released

    def paired(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """One attribute's originals and releases, paired."""
        assert self.order is not None, "asked for pairs without knowing them"
        return self.original[name][self.order], self.released[name]


def height(columns: Columns) -> int:
    """The number of rows of some columns."""
    return len(next(iter(columns.values()))) if columns else 0


def take(columns: Columns, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Columns:
    """The columns with some of their rows."""
    return {name: column[rows] for name, column in columns.items()}


@dataclass(frozen=True, kw_only=True)
class Space:
    """Records as points: each attribute divided by its standard deviation in the original.

    A missing cell stands one standard deviation below the least value, so that missing is
    near missing and far from the rest.
    """

    names: tuple[str, ...]
    divisors: NDArray[np.float64]
    gaps: NDArray[np.float64]

    @classmethod
    def of(cls, original: Columns, names: Sequence[str]) -> Space:
        """The space of some attributes."""
        divisors, gaps = [], []
        for name in names:
            present = original[name][~np.isnan(original[name])]
            spread = float(np.std(present)) if present.size else 0.0
            divisors.append(spread or 1.0)
            gaps.append((float(present.min()) if present.size else 0.0) / divisors[-1] - 1)
        return cls(names=tuple(names), divisors=np.array(divisors), gaps=np.array(gaps))

    def points(
        self, columns: Columns, rows: NDArray[np.int64] | slice = slice(None)
    ) -> NDArray[np.float64]:
        """Some rows as points of the space."""
        first = columns[self.names[0]][rows]
        points = np.empty((len(first), len(self.names)))
        for i, name in enumerate(self.names):
            np.divide(columns[name][rows], self.divisors[i], out=points[:, i])
            missing = np.isnan(points[:, i])
            if missing.any():
                points[missing, i] = self.gaps[i]
        return points


def matrix(
    columns: Columns, names: Sequence[str], rows: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """The rows of some columns, in single precision: trees compare, they do not add."""
    n = len(columns[names[0]]) if rows is None else len(rows)
    features = np.empty((n, len(names)), np.float32)
    for i, name in enumerate(names):
        features[:, i] = columns[name] if rows is None else columns[name][rows]
    return features


def pick(rng: np.random.Generator, n: int, most: int) -> NDArray[np.int64]:
    """At most so many rows of n, at random, without repetition."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False))
