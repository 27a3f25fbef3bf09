# ruff: noqa: E741 - l is the field's own name for it
"""Releasing buckets again after the data changed: every record keeps its signature.

The *signature* of a record is the set of sensitive values listed in its bucket, each once, at
least l of them. It is given at the first release of a record and kept for ever: in every later
one the record lies in a bucket of the same signature, however it is composed (m-invariance,
xiao2007). Where too few records of a value are left, their place in the bucket stays empty, and the
list of values is one longer than the list of records.

Then somebody who holds all releases, and knows everybody's quasi-identifiers and who was in the
table when, has for each value of a record's signature the same posterior, at most 1/l. Proof:
take a world, that is values for all records at all times which fits every release, and a
permutation π of the signature. Apply π to the values of all records of that signature, at all
times. Every bucket of the signature lists each value once, before and after, and no other bucket
is touched: it is a world again, and fits. So as many worlds give the record v as π(v).

A record whose value changes to one outside its signature keeps the value it was last released
with: were it left out, or given another signature, that would say that it changed, and away from
what. A record that returns has the signature it had. New records fill empty places of their
value, form buckets of their own, or are held back.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import FormatError, PlanError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.randomness import Randomness
    from sherd.release.method import PrivateRecord
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

_FORMAT = 1
_TEXTS = ("key", "release", "schema", "method")


@dataclass(frozen=True, kw_only=True)
class SignatureRecord:
    """The owner's private record: the signature and last released value of every record ever.

    ``signatures`` are lists of values; ``members`` maps a key to the number of its signature and
    its value. ``l`` and ``sensitive`` are the first plan's.
    """

    signatures: tuple[tuple[str, ...], ...]
    members: Mapping[str, tuple[int, str]]
    l: int
    sensitive: str
    method: str
    key: str = ""
    release: str = ""
    schema: str = ""
    seeded: bool = False

    def belonging_to(self, release: str) -> SignatureRecord:
        """The record with the sha256 of the release it belongs to."""
        return replace(self, release=release)

    def encoded(self) -> bytes:
        """The record as the bytes of a file."""
        data = {
            "format": _FORMAT,
            **{name: getattr(self, name) for name in (*_TEXTS, "l", "sensitive", "seeded")},
            "signatures": [list(values) for values in self.signatures],
            "members": {key: list(of) for key, of in self.members.items()},
        }
        return json.dumps(data, ensure_ascii=False).encode()

    def save(self, path: str | Path) -> None:
        """Write the record for the owner's eyes only: it holds everybody's sensitive value."""
        from sherd.tables.files import write_whole

        write_whole(Path(path), self.encoded(), mode=0o600)

    @classmethod
    def load(cls, path: str | Path) -> SignatureRecord:
        """Read the record that ``save`` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            made = cls(
                signatures=tuple(tuple(map(str, values)) for values in data["signatures"]),
                members={str(k): (int(s), str(v)) for k, (s, v) in data["members"].items()},
                **{name: str(data[name]) for name in (*_TEXTS, "sensitive")},
                l=int(data["l"]),
                seeded=bool(data["seeded"]),
            )
            good = data["format"] == _FORMAT and all(
                0 <= s < len(made.signatures) and v in made.signatures[s]
                for s, v in made.members.values()
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            good = False
        if not good:
            raise FormatError(
                "this is not the record of a release",
                must="a file that `save` wrote",
                got=str(path),
            )
        return made


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """The buckets of a release: rows and values of each, and what it cost to keep signatures.

    ``rows[b]`` are the table's rows in bucket b, ``values[b]`` the values it lists. ``stale``
    records keep an older value, ``held_back`` new ones wait, ``empty`` places have no record.
    """

    rows: list[list[int]]
    values: list[tuple[str, ...]]
    record: SignatureRecord
    stale: int = 0
    held_back: int = 0
    stay: int = 0

    @property
    def empty(self) -> int:
        """How many listed values belong to nobody."""
        return sum(map(len, self.values)) - sum(map(len, self.rows))


@dataclass(kw_only=True)
class _Kept:
    """Signatures as they grow."""

    signatures: list[tuple[str, ...]]
    members: dict[str, tuple[int, str]]
    number: dict[tuple[str, ...], int] = field(default_factory=dict)

    def signature(self, values: Sequence[str]) -> int:
        made = tuple(sorted(values))
        if made not in self.number:
            self.number[made] = len(self.signatures)
            self.signatures.append(made)
        return self.number[made]


def bucketed_again(
    old: SignatureRecord, keys: Sequence[str], values: Sequence[str], randomness: Randomness
) -> Buckets:
    """Buckets for a table (a key and a sensitive value a row) that keep every signature."""
    kept = _Kept(signatures=list(old.signatures), members=dict(old.members))
    kept.number = {values: at for at, values in enumerate(kept.signatures)}
    staying: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    fresh: dict[str, list[int]] = defaultdict(list)
    stale = stay = 0
    for row in randomness.permutation(len(keys)).tolist():
        known = kept.members.get(keys[row])
        if known is None:
            fresh[values[row]].append(row)
            continue
        number, last = known
        stay += 1
        if values[row] not in kept.signatures[number]:
            stale += 1
        else:
            last = values[row]
        kept.members[keys[row]] = number, last
        staying[number][last].append(row)
    rows: list[list[int]] = []
    listed: list[tuple[str, ...]] = []
    for number in sorted(staying):
        signature, of_value = kept.signatures[number], staying[number]
        count = max(len(of_value[value]) for value in signature)
        for value in signature:
            while len(of_value[value]) < count and fresh[value]:
                row = fresh[value].pop()
                kept.members[keys[row]] = number, value
                of_value[value].append(row)
        for place in range(count):
            rows.append([of_value[v][place] for v in signature if place < len(of_value[v])])
            listed.append(signature)
    left = sorted(row for of_value in fresh.values() for row in of_value)
    held = _new_buckets(left, keys, values, old.l, kept, rows, listed, randomness)
    record = replace(old, signatures=tuple(kept.signatures), members=kept.members, release="")
    return Buckets(rows=rows, values=listed, record=record, stale=stale, held_back=held, stay=stay)


def _new_buckets(
    left: list[int],
    keys: Sequence[str],
    values: Sequence[str],
    l: int,
    kept: _Kept,
    rows: list[list[int]],
    listed: list[tuple[str, ...]],
    randomness: Randomness,
) -> int:
    """Buckets of nothing but new records; returns how many of them find none."""
    from sherd.methods.slicing.regroup import grouped
    from sherd.methods.slicing.sensitive_values import Sensitive, surviving

    if not left:
        return 0
    names = sorted({values[row] for row in left})
    code = {name: at for at, name in enumerate(names)}
    codes = np.array([code[values[row]] for row in left], dtype=np.int32)
    sensitive = Sensitive(names=("",), codes=codes[:, None], sizes=(len(names),))
    nothing = np.zeros(len(left), dtype=np.int32)
    fits: NDArray[np.int64] = surviving(sensitive, nothing, l, randomness.permutation(len(left)))
    if len(fits) < l:
        return len(left)
    group = grouped(codes[fits], len(names), l)
    made: list[list[int]] = [[] for _ in range(int(group.max()) + 1)]
    for at, number in zip(fits.tolist(), group.tolist(), strict=True):
        made[number].append(left[at])
    for bucket in made:
        signature = kept.signature([values[row] for row in bucket])
        for row in bucket:
            kept.members[keys[row]] = signature, values[row]
        rows.append(bucket)
        listed.append(kept.signatures[signature])
    return len(left) - len(fits)


def check_past(past: Any, plan: Any, schema: Any, keys: Any, *, seeded: bool) -> SignatureRecord:
    """The record of the release that a run follows; raises where it is of another kind."""
    if not isinstance(past, SignatureRecord) or plan["after"] is None:
        raise PlanError(
            "a release that follows another needs three things",
            must="a plan made from the old release, the owner's record of it, and the key",
            do="make the plan with `follow`, and pass Settings(key=…, past=…)",
        )
    told = (
        ("release", past.release, plan["after"]["release"]),
        ("schema", past.schema, schema.hash),
        ("key", past.key, keys.attribute),
        ("method", past.method, plan.method),
        ("l", past.l, plan["l"]),
    )
    for name, mine, given in told:
        if mine != given:
            raise UsageError(
                f"the record is not that of the release which the plan follows: another {name}"
            )
    if past.seeded and not seeded:
        raise PlanError(
            "the buckets of the old release are reproducible, and this one would keep them",
            must="made with a seed too, so that it is stamped as carrying no guarantee",
        )
    return past


def follow(
    old: str | Path,
    record: PrivateRecord,
    schema: Schema,
    chosen: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of the release after the one in the folder ``old``, of which ``record`` is kept.

    All parameters are the old release's; ``chosen`` may name them if they are the same.
    """
    from sherd.release.bundle import MANIFEST, ORDER_KEPT, digest, read_manifest
    from sherd.release.plan import Plan

    manifest = read_manifest(Path(old))
    if record.release != digest(Path(old) / MANIFEST):
        raise UsageError("the record is not that of the old release", got=str(old))
    if ORDER_KEPT in manifest.get("stamps", ()):
        raise UsageError("the old release is not for publication", got=ORDER_KEPT)
    if schema.published().hash != manifest.get("schema_hash"):
        raise UsageError("the schema is not that of the old release", do="use the old schema")
    shared = manifest["plan"]
    for name, value in (chosen or {}).items():
        if value is not None and value != shared.get(name):
            raise PlanError(
                f"the '{name}' parameter is not that of the old release",
                got=repr(value),
                do=f"leave it out: it is taken from {old}",
            )
    return Plan.from_data({**shared, "after": {"release": record.release}})
