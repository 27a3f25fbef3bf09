"""Whether the promise in a manifest is the one that its plan and schema lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd import __version__
from sherd.errors import SherdError
from sherd.guarantees import Assumption
from sherd.guarantees.earlier_words import as_named_before, in_todays_words
from sherd.release.manifest import EARLIER_FORMAT
from sherd.release.plan import Plan
from sherd.tables.schema import Schema
from sherd.verifying.check import UNREADABLE, Check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sherd.guarantees import Guarantee


def planned_guarantee(manifest: Mapping[str, Any]) -> Guarantee:
    """The promise that a single owner's plan leads to."""
    return Plan.from_data(manifest["plan"]).guarantee(Schema.from_data(manifest["schema"]))


def _said(codes: Iterable[str]) -> Iterator[str]:
    """Assumptions by their words, other texts as they are."""
    known = {one.value: one.words for one in Assumption}
    return (known.get(code, code) for code in codes)


def check_promise(
    manifest: Mapping[str, Any],
    derive: Callable[[Mapping[str, Any]], Guarantee] = planned_guarantee,
) -> Check:
    """Compare the stated promise with the one derived, field by field."""
    try:
        guarantee = derive(manifest)
        if any("no guarantee" in stamp for stamp in manifest["stamps"]):
            guarantee = guarantee.seeded()
        expected, given = guarantee.as_data(), in_todays_words(dict(manifest["guarantee"]))
    except SherdError as error:
        return Check(name="promise", passed=False, detail=f"cannot be derived: {error.what}")
    except UNREADABLE:
        detail = "cannot be derived: stamps, guarantee, plan or schema cannot be read"
        return Check(name="promise", passed=False, detail=detail)
    unnamed: tuple[str, ...] = ()
    if manifest.get("format") == EARLIER_FORMAT:
        expected, unnamed = as_named_before(expected)
    if expected == given and not unnamed:
        return Check(name="promise", passed=True, detail="what plan and schema lead to")
    expected.pop("words"), given.pop("words", None)
    if expected == given and unnamed:
        detail = "an earlier promise; today's says in addition that it leaves aside: "
        return Check(name="promise", passed=None, detail=detail + "; ".join(_said(unnamed)))
    versions = manifest.get("versions")
    version = versions.get("sherd") if isinstance(versions, dict) else None
    if expected == given and isinstance(version, str) and version != __version__:
        detail = f"follows from plan and schema; its words are those of sherd {version}"
        return Check(name="promise", passed=None, detail=detail)
    return Check(name="promise", passed=False, detail="not what plan and schema lead to")
