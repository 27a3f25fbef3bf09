"""What knowing a person's class or bucket tells of a secret: homogeneity, background, skewness.

k-anonymity and its kin hide which record of a group is a person's, not what the group's records
have in common. All of it is counted in the release alone (Machanavajjhala et al. 2007, Li et al.
2007), beside the same values dealt to random groups of the same sizes: what is left then is the
groups' doing.

Notation: G a group, p_G the distribution of the sensitive attribute in it, q in the whole release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.case.record_drawing import (
    BucketisedRelease,
    GeneralisedRelease,
    SlicedRelease,
)
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Better, Measure
from sherd.tables.schema import Role, Type
from sherd.verifying.label_meaning import Labelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

CODES = (
    "homogeneity",
    "background",
    "least-confidence",
    "skewness",
    "t-closeness",
    "entropy-diversity",
    "recursive-diversity",
    "largest-share",
    "beta-likeness",
)
RECURSIVE_C = 3
"""c of the recursive (c, l)-diversity whose largest l is measured, as in the paper."""
CELLS = 40_000_000
"""Groups times values up to which a sensitive attribute is looked at."""


@dataclass(frozen=True, kw_only=True)
class GroupedSecret:
    """A sensitive attribute in groups: the value and the group of every released record."""

    values: Ints
    groups: Ints
    ordered: bool

    def counts(self, values: Ints) -> Floats:
        """How often each value is in each group."""
        n_values, n_groups = int(self.values.max()) + 1, int(self.groups.max()) + 1
        flat = np.bincount(self.groups * n_values + values, minlength=n_groups * n_values)
        return flat.reshape(n_groups, n_values).astype(np.float64)

    def measured(self, values: Ints) -> dict[str, float]:
        """Every number, for values in these groups."""
        counts = self.counts(values)
        sizes = counts.sum(axis=1)
        weight = sizes / sizes.sum()
        shares = counts / sizes[:, None]
        whole = counts.sum(axis=0) / sizes.sum()
        kinds = np.count_nonzero(counts, axis=1)
        seen = whole > 0
        return {
            "homogeneity": float(weight @ (kinds == 1)),
            "background": float(weight @ (kinds <= 2)),
            "least-confidence": float(weight @ shares.max(axis=1)),
            "skewness": float(weight @ (shares[:, seen] / whole[seen]).max(axis=1)),
            "t-closeness": float(_distances(shares, whole, self.ordered).max()),
            "entropy-diversity": float(np.exp(_entropies(shares)).min()),
            "recursive-diversity": float(_recursive(counts).min()),
            "largest-share": float(shares.max()),
            "beta-likeness": float((shares[:, seen] / whole[seen]).max() - 1),
        }


def _distances(shares: Floats, whole: Floats, ordered: bool) -> Floats:
    """The earth mover's distance of every group from the whole."""
    differences = shares - whole
    if ordered:
        differences = np.cumsum(differences, axis=1)
    moved: Floats = np.abs(differences).sum(axis=1)
    return moved / (max(1, shares.shape[1] - 1) if ordered else 2)


def _entropies(shares: Floats) -> Floats:
    """The entropy of every group's distribution, in nats."""
    logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropies: Floats = -(shares * logarithms).sum(axis=1)
    return entropies


def _recursive(counts: Floats) -> Ints:
    """The largest l of every group with r_1 < c (r_l + … + r_m), counts in falling order.

    The sums fall as l grows, so that l is how many of them are large enough.
    """
    falling = -np.sort(-counts, axis=1)
    sums = np.cumsum(falling[:, ::-1], axis=1)[:, ::-1]
    diverse: Ints = (falling[:, :1] < RECURSIVE_C * sums).sum(axis=1)
    return diverse


def secrets_of(case: Case) -> dict[str, GroupedSecret]:
    """Every sensitive attribute that the release shows in groups."""
    source: Any = case.drawable
    if isinstance(source, BucketisedRelease):
        source = source.as_sliced()
    names = [name for name in case.schema.named(Role.SENSITIVE) if name in case.names]
    if isinstance(source, SlicedRelease):
        fields = {a: f for column in source.columns for a, f in column.items()}
        groups = np.unique(source.table[source.bucket].to_numpy(), return_inverse=True)[1]
    elif isinstance(source, GeneralisedRelease) and source.grouped:
        fields = {name: name for name in source.table.column_names}
        groups = _classes(source, [n for n in fields if n in case.schema.attributes], names)
    else:
        return {}
    secrets = {}
    for name in names:
        cells = Labelled.of(source.table[fields[name]], source.books.get(name), source.kinds[name])
        rank = {label: i for i, label in enumerate(case.scales[name].labels or ())}
        order = np.argsort(np.argsort([_key(one, rank) for one in cells.meanings], kind="stable"))
        if len(order) * (int(groups.max()) + 1) <= CELLS:
            kind = case.schema[name].type
            ordered = kind.measured or kind is Type.ORDINAL
            secrets[name] = GroupedSecret(
                values=order[cells.of_row], groups=groups, ordered=ordered
            )
    return secrets


def _key(meaning: Any, rank: Mapping[str, int]) -> str:
    """What labels are ordered by, to compare as text: their low end, or their declared rank."""
    value = meaning.low if meaning.low is not None else meaning.values[0]
    value = rank.get(str(value), value)
    return f"{float(value) + 1e15:030.9f}" if isinstance(value, (int, float)) else str(value)


def _classes(source: GeneralisedRelease, names: list[str], secrets: list[str]) -> Ints:
    """The class of every record: equal labels of all that is not a secret."""
    codes = np.column_stack(
        [
            Labelled.of(source.table[n], source.books.get(n), source.kinds[n]).of_row
            for n in names
            if n not in secrets
        ]
    )
    classes: Ints = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    return classes


def disclosure(case: Case) -> list[Measure]:
    """What groups give away, the worst sensitive attribute for each number."""
    secrets = secrets_of(case)
    if not secrets:
        return []
    rng = case.rng("groups")
    real = {name: one.measured(one.values) for name, one in secrets.items()}
    dealt = {
        name: one.measured(one.values[rng.permutation(len(one.values))])
        for name, one in secrets.items()
    }
    measures = []
    for code in CODES:
        parts = {name: numbers[code] for name, numbers in real.items()}
        sign = -1 if CATALOGUE[code].better is Better.HIGHER else 1
        worst = max(parts, key=lambda name: sign * (parts[name] - dealt[name][code]))
        many = len(secrets[worst].values)
        measures.append(
            Measure(
                spec=CATALOGUE[code],
                value=parts[worst],
                basis=f"{worst}, {many:,} released records in "
                f"{int(secrets[worst].groups.max()) + 1:,} groups, exact",
                baseline=dealt[worst][code],
                against="the same values in random groups of the same sizes",
                parts=parts,
            )
        )
    return measures


GROUPS = Attack(
    name="group-disclosure",
    title="Homogeneity, background knowledge and skewness",
    codes=CODES,
    knows="which class or bucket a person is in",
    does="reads off the sensitive values of the group's records, alone or with one of them ruled "
    "out",
    wins="when they are all the same",
    source="Machanavajjhala et al. 2007; Li et al. 2007; Wong et al. 2006; Cao and Karras 2012",
    run=disclosure,
    whole=True,
)
