# ruff: noqa: E741 - l is the field's own name for it
"""The owner's record of everybody's signature, and the plan of the release that comes next.

``invariant_buckets`` says what a signature is and what keeping it is good for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, PlanError, UsageError
from sherd.methods.slicing.sensitive_values import sensitive_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.release.method import Lineage, PrivateRecord, Run
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


class KeepsSignatures:
    """What methods that keep signatures have in common (see ``release.method.FollowsReleases``)."""

    def load_record(self, path: Path) -> SignatureRecord:
        """Read the record that an earlier release left with its owner."""
        return SignatureRecord.load(path)

    def plan_after(
        self, old: Path, record: PrivateRecord, schema: Schema, chosen: Mapping[str, Any]
    ) -> Plan:
        """The plan of the release after the one in the folder ``old``."""
        return follow(old, record, schema, chosen)


def followed(plan: Plan) -> dict[str, object]:
    """What a manifest states of the release that a plan follows."""
    return {} if plan["after"] is None else {"after": plan["after"]["release"]}


def plain_type(table: pa.Table, name: str) -> pa.DataType:
    """The type of a column's values, not of its dictionary."""
    kind = table.schema.field(name).type
    return getattr(kind, "value_type", kind)


def check_kept(plan: Plan, schema: Schema) -> str:
    """The sensitive attribute of which a record is kept; raises where none can be."""
    names = sensitive_names(plan, schema)
    if plan["l"] < 2 or plan["conditions"] or plan.parameters.get("sets"):
        raise PlanError(
            "a record is kept for 'l' alone", must="l from 2, no conditions and no sets"
        )
    if len(names) != 1 or schema[names[0]].type.measured:
        raise PlanError(
            "a record is kept of one sensitive attribute with labels only",
            got=", ".join(names),
            do="name one with 'sensitive', or make its bins an attribute of the table",
        )
    return names[0]


def earlier(lineage: Lineage, plan: Plan, schema: Schema, run: Run) -> SignatureRecord:
    """The record that a run goes on from: that of the release it follows, or an empty one."""
    name = check_kept(plan, schema)
    seeded = run.randomness.is_seeded
    if lineage.past is not None or plan["after"] is not None:
        return _checked(lineage, plan, schema, seeded=seeded)
    return SignatureRecord(
        signatures=(), members={}, l=plan["l"], sensitive=name, method=plan.method,
        key=lineage.keys.attribute, schema=schema.hash, seeded=seeded,
    )  # fmt: skip


def needs_record(plan: Plan) -> None:
    """Raise where a plan follows a release but the owner's record of it is not given."""
    if plan["after"] is not None:
        raise PlanError(
            "a release that follows another needs the owner's record of it, and the key",
            do="pass Settings(key=…, past=…)",
        )


def _checked(lineage: Lineage, plan: Plan, schema: Schema, *, seeded: bool) -> SignatureRecord:
    """The record of the release that a run follows; raises where it is of another kind."""
    past = lineage.past
    if not isinstance(past, SignatureRecord) or plan["after"] is None:
        raise PlanError(
            "a release that follows another needs three things",
            must="a plan made from the old release, the owner's record of it, and the key",
            do="make the plan with `follow`, and pass Settings(key=…, past=…)",
        )
    told = (
        ("release", past.release, plan["after"]["release"]),
        ("schema", past.schema, schema.hash),
        ("key", past.key, lineage.keys.attribute),
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
    old: str | Path, record: PrivateRecord, schema: Schema, chosen: Mapping[str, Any] | None = None
) -> Plan:
    """The plan of the release after the one in the folder ``old``, of which ``record`` is kept.

    All parameters are the old release's; ``chosen`` may name them if they are the same.
    """
    from sherd.release.plan import Plan
    from sherd.release.preceding import manifest_to_follow

    manifest = manifest_to_follow(Path(old), record, schema)
    shared = manifest["plan"]
    for name, value in (chosen or {}).items():
        if value is not None and value != shared.get(name):
            raise PlanError(
                f"the '{name}' parameter is not that of the old release",
                got=repr(value),
                do=f"leave it out: it is taken from {old}",
            )
    return Plan.from_data({**shared, "after": {"release": record.release}})
