"""Confidentiality constraints: which attributes may not be seen together, and what is asked.

A constraint is a set of attributes (Definition 2.1). One attribute alone is withheld; of
several, at least two must lie in different fragments. A constraint that contains another
says nothing new and is dropped.

>>> given = Constraints.from_data({
...     "constraints": [["name"], ["zip", "job"], ["zip", "job", "age"]],
...     "dependencies": ["zip -> city"],
... })
>>> given.withheld, given.separate
(('name',), (('zip', 'job'),))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sherd.errors import PlanError, did_you_mean
from sherd.methods.fragmenting.visibility import alternatives

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, kw_only=True)
class Dependency:
    """Knowing ``determines`` of a record tells ``follows``, rightly so often (``confidence``)."""

    determines: tuple[str, ...]
    follows: tuple[str, ...]
    confidence: float = 1.0


@dataclass(frozen=True, kw_only=True)
class AskedTogether:
    """Attributes that are asked about together, and how much that counts."""

    attributes: tuple[str, ...]
    weight: float = 1.0
    query: str | None = None


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What may not be seen together, what determines what, and what will be asked.

    ``together`` lists attributes that must stay in one fragment, ``affinity`` attributes
    that are better kept together, ``workload`` queries that are expected. ``visible`` are
    formulas that some fragment must make true (see ``visibility``), ``optional`` attributes that
    may be left out of all fragments.
    """

    constraints: tuple[tuple[str, ...], ...]
    dependencies: tuple[Dependency, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    affinity: tuple[AskedTogether, ...] = ()
    visible: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    workload: tuple[AskedTogether, ...] = ()

    def __post_init__(self) -> None:
        if not self.constraints:
            raise PlanError(
                "there is no confidentiality constraint",
                must="at least one list of attributes",
                do="without constraints the whole table can be released as it is",
            )
        for constraint in self.constraints:
            if not constraint or len(set(constraint)) != len(constraint):
                raise PlanError(
                    "a confidentiality constraint is not valid",
                    must="a list of distinct attributes",
                    got=repr(list(constraint)),
                )

    @property
    def withheld(self) -> tuple[str, ...]:
        """The attributes that are sensitive by themselves and are not released."""
        return tuple(dict.fromkeys(c[0] for c in self.constraints if len(c) == 1))

    @property
    def separate(self) -> tuple[tuple[str, ...], ...]:
        """The constraints over several attributes that no other constraint implies."""
        sets = [frozenset(c) for c in self.constraints]
        return tuple(
            c
            for at, c in enumerate(self.constraints)
            if len(c) > 1 and not any(s < sets[at] for s in sets) and sets.index(sets[at]) == at
        )

    @property
    def attributes(self) -> tuple[str, ...]:
        """Every attribute that is mentioned anywhere."""
        named: list[str] = [a for c in self.constraints for a in c]
        for dependency in self.dependencies:
            named += [*dependency.determines, *dependency.follows]
        named += [a for block in self.together for a in block]
        named += [a for asked in (*self.affinity, *self.workload) for a in asked.attributes]
        named += [a for formula in self.visible for one in alternatives(formula) for a in one]
        return tuple(dict.fromkeys([*named, *self.optional]))

    def believed(self, looseness: int) -> Constraints:
        """The same with the dependencies that tell more than a k-loose association may.

        Somebody who guesses right with probability 1/k anyway learns nothing that is promised to
        be hidden; above that, a dependency counts as if it always held.
        """
        kept = tuple(rule for rule in self.dependencies if rule.confidence * looseness > 1)
        return replace(self, dependencies=kept)

    def check(self, known: Iterable[str]) -> None:
        """Raise where an attribute is mentioned that the table does not have."""
        known = tuple(known)
        for name in self.attributes:
            if name not in known:
                raise PlanError(
                    f"the constraints name the attribute '{name}', which the schema lacks",
                    must="one of " + ", ".join(known),
                    do=did_you_mean(name, known) or None,
                )

    def closure(self, attributes: Iterable[str]) -> frozenset[str]:
        """What can be told from attributes by the dependencies.

        >>> rule = Dependency(determines=("zip",), follows=("city",))
        >>> sorted(Constraints(constraints=(("zip", "job"),), dependencies=(rule,))
        ...        .closure(["zip"]))
        ['city', 'zip']
        """
        told = set(attributes)
        grew = True
        while grew:
            grew = False
            for rule in self.dependencies:
                if told.issuperset(rule.determines) and not told.issuperset(rule.follows):
                    told.update(rule.follows)
                    grew = True
        return frozenset(told)

    def asked_about(self, similar: Sequence[str]) -> tuple[str, ...]:
        """The attributes to be kept similar, then those of the workload.

        >>> asked = AskedTogether(attributes=("a", "c"))
        >>> Constraints(constraints=(("a", "b"),), workload=(asked,)).asked_about(["d"])
        ('d', 'a', 'c')
        """
        named = [name for asked in self.workload for name in asked.attributes]
        return tuple(dict.fromkeys([*similar, *named]))

    def wishes(self, similar: Sequence[str], names: Sequence[str]) -> tuple[AskedTogether, ...]:
        """What the groups of a fragment should be alike in, each wish fulfilled by any attribute.

        A group mixes the values of its fragment among its tuples. That does no harm to a query
        over several fragments where the tuples agree in *any one* of its attributes, be it one
        that lies in another fragment. An attribute to be kept similar is a wish for itself, half
        again as heavy as the whole workload, and the queries that ask about it count twice.
        Queries that do not touch the fragment, or nothing else, are answered exactly here.

        >>> asked = AskedTogether(attributes=("a", "c"))
        >>> given = Constraints(constraints=(("a", "b"),), workload=(asked,))
        >>> [(wish.attributes, wish.weight) for wish in given.wishes(["a"], ["a", "d"])]
        [(('a',), 1.5), (('a', 'c'), 2.0)]
        """
        crossing = [
            asked for asked in self.workload if 0 < len({*names} & {*asked.attributes})
            < len(asked.attributes)
        ]  # fmt: skip
        heavy = _SIMILAR * max(1.0, sum(asked.weight for asked in self.workload))
        groups = [
            AskedTogether(attributes=(name,), weight=heavy) for name in similar if name in names
        ]
        groups += [
            replace(asked, weight=_SIMILAR_QUERIES * asked.weight)
            if {*similar} & {*asked.attributes}
            else asked
            for asked in crossing
        ]
        return tuple(groups)

    def as_data(self) -> dict[str, Any]:
        """The constraints as plain data that ``from_data`` reads back."""
        data: dict[str, Any] = {"constraints": [list(c) for c in self.constraints]}
        if self.dependencies:
            data["dependencies"] = [
                {"determines": list(d.determines), "follows": list(d.follows)}
                | ({} if d.confidence == 1 else {"confidence": d.confidence})
                for d in self.dependencies
            ]
        if self.together:
            data["together"] = [list(block) for block in self.together]
        for key in ("visible", "optional"):
            if getattr(self, key):
                data[key] = list(getattr(self, key))
        if self.affinity:
            data["affinity"] = [
                {"attributes": list(a.attributes), "weight": a.weight} for a in self.affinity
            ]
        if self.workload:
            data["workload"] = [
                {"query": a.query, "weight": a.weight}
                if a.query is not None
                else {"attributes": list(a.attributes), "weight": a.weight}
                for a in self.workload
            ]
        return data

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read constraints from a YAML file."""
        from sherd.tables.files import read_yaml

        return cls.from_data(read_yaml(Path(path)))

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Constraints from plain data, as a YAML file holds them.

        Keys that belong to the plan (``fragments``, ``sizes``, ``looseness``, ``similar``)
        are left to it.
        """
        if not isinstance(data, Mapping):
            raise PlanError("the constraints cannot be understood", must="a mapping")
        for key in data:
            if key not in _KEYS and key not in PLAN_KEYS:
                raise PlanError(
                    "the constraints have an unknown setting",
                    must="one of " + ", ".join((*_KEYS, *PLAN_KEYS)),
                    got=repr(key),
                    do=did_you_mean(str(key), _KEYS) or None,
                )
        return cls(
            constraints=tuple(_names(c, "a constraint") for c in _list(data, "constraints")),
            dependencies=tuple(_dependency(d) for d in _list(data, "dependencies")),
            together=tuple(_names(b, "'together'") for b in _list(data, "together")),
            visible=_names(_list(data, "visible"), "'visible'"),
            optional=_names(_list(data, "optional"), "'optional'"),
            affinity=tuple(_asked(a, "'affinity'") for a in _list(data, "affinity")),
            workload=tuple(_asked(a, "'workload'") for a in _list(data, "workload")),
        )


_SIMILAR, _SIMILAR_QUERIES = 1.5, 2.0
_KEYS = (
    "constraints", "dependencies", "together", "visible", "optional", "affinity", "workload",
)  # fmt: skip
PLAN_KEYS = ("fragments", "sizes", "looseness", "similar")
"""Settings of the plan that may stand in the same file."""


def _list(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    given = data.get(key)
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)):
        raise PlanError(f"'{key}' cannot be understood", must="a list", got=type(given).__name__)
    return given


def _names(given: Any, what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, (list, tuple)) or not all(isinstance(a, str) for a in given):
        raise PlanError(f"{what} cannot be understood", must="a list of attributes")
    return tuple(given)


_RULE = {"determines", "follows", "confidence"}


def _dependency(given: Any) -> Dependency:
    confidence: Any = 1.0
    if isinstance(given, str) and given.count("->") == 1:
        left, right = (
            tuple(name.strip() for name in side.split(",")) for side in given.split("->")
        )
    elif isinstance(given, Mapping) and {"determines", "follows"} <= set(given) <= _RULE:
        left = _names(given["determines"], "a dependency")
        right = _names(given["follows"], "a dependency")
        confidence = given.get("confidence", 1.0)
    else:
        left = right = ()
    if not all(left) or not all(right) or not left or not right:
        raise PlanError(
            "a dependency cannot be understood",
            must="written as 'zip -> city' or {determines: [zip], follows: [city]}",
        )
    number = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
    if not number or not 0 < confidence <= 1:
        raise PlanError(
            "the confidence of a dependency is not valid",
            must="a number above 0 and at most 1",
            got=repr(confidence),
        )
    return Dependency(determines=left, follows=right, confidence=float(confidence))


def _asked(given: Any, what: str) -> AskedTogether:
    weight, query = 1.0, None
    if isinstance(given, Mapping):
        weight = given.get("weight", 1.0)
        query = given.get("query")
        given = query if query is not None else given.get("attributes")
    elif isinstance(given, str):
        query = given
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not weight > 0:
        raise PlanError(f"a weight in {what} is not valid", must="a number above 0")
    if query is not None:
        from sherd.methods.fragmenting.query_parsing import attributes_of

        return AskedTogether(
            attributes=attributes_of(str(query)), weight=float(weight), query=str(query)
        )
    return AskedTogether(attributes=_names(given, what), weight=float(weight))
