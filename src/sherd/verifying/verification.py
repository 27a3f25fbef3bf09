"""Verifying a release from what was released alone: the one function that everybody calls.

Command line, audit and servers call ``verify``; none has checks of its own. It looks at the form of
the manifest, at the files, at the promise (is it the one that plan and schema lead to?) and how it
came about, and at the contents by the checks that the method declares (``sherd.release.traits``).
Nothing here shares code with the methods: a mistake in one is not repeated in the other.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd import __version__
from sherd.errors import SherdError, UsageError
from sherd.guarantees import Assumption
from sherd.guarantees.guarantee import NAMED_SINCE_FORMAT_2, as_named_before, in_todays_words
from sherd.release.bundle import Release, read_manifest
from sherd.release.manifest import EARLIER_FORMAT
from sherd.release.method import traits_of
from sherd.release.plan import Plan
from sherd.release.traits import loaded
from sherd.tables.schema import Schema
from sherd.verifying.bundle_files import (
    check_files,
    check_hashes,
    check_sizes,
    read_documents,
    read_tables,
    stored_tables,
)
from sherd.verifying.check import UNREADABLE, Check
from sherd.verifying.file_form import check_form
from sherd.verifying.manifest_form import check_manifest, check_package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from sherd.guarantees import Guarantee
    from sherd.verifying.stored_table import StoredTable

    Tables = Mapping[str, pa.Table] | Mapping[str, pa.Table | StoredTable]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Every check of a release, those that could not be made included.

    ``manifest`` is what was read and checked; None where it cannot be read.
    """

    checks: tuple[Check, ...]
    manifest: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.passed is False)

    @property
    def unknown(self) -> tuple[Check, ...]:
        """The checks that could not be made from the release alone."""
        return tuple(check for check in self.checks if check.passed is None)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def as_data(self) -> dict[str, Any]:
        """The checks as plain data."""
        return {"passed": self.passed, "checks": [vars(check) for check in self.checks]}


def verify(
    release: str | Path | Release,
    *,
    key: str | Path | None = None,
    beside: str | Path | None = None,
    require_signatures: bool = False,
) -> Verification:
    """Verify a release: a bundle's folder, or what ``protect`` gave.

    ``key`` says whose signature it must have: a fingerprint, a public key, or its file.
    ``beside`` is an earlier release of the same fragments: what somebody who holds both can tell.
    With ``require_signatures`` an unsigned release fails, and a joint one that not every owner in
    it has countersigned; without, that is a check that could not be made.
    """
    if isinstance(release, Release):
        if require_signatures:
            raise UsageError("only a release that was written can be signed", do="give its folder")
        return _verify_tables(release)
    folder = Path(release)
    try:
        manifest = read_manifest(folder)
    except UsageError as error:
        if not folder.is_dir():
            raise
        detail = f"{error.what}; it must be {error.must}"
        return Verification(checks=(Check.failed("manifest", detail),))
    checks = [*check_manifest(manifest), *check_files(folder, manifest)]
    if any(check.passed is False for check in checks):
        checks.append(Check.unmade("contents", "manifest or files are not intact"))
    else:
        checks += [check_package(folder, manifest), check_form(folder, manifest)]
        with ExitStack() as stack:
            checks += _contents(
                lambda: _released_tables(folder, manifest, stack),
                manifest,
                lambda: read_documents(folder, manifest),
            )
    checks += _origin(manifest)
    signed = _signatures(folder, manifest, None if key is None else str(key))
    checks += map(_required, signed) if require_signatures else signed
    if beside is not None:
        checks += _beside(Path(beside), folder, manifest, checks)
    return Verification(checks=tuple(checks), manifest=manifest)


def _signatures(folder: Path, manifest: Mapping[str, Any], key: str | None) -> list[Check]:
    if "joint" not in manifest:
        return [check_signature(folder, key)]
    from sherd.verifying.joint_manifest import check_signatures

    return check_signatures(folder, manifest, key)


def _required(check: Check) -> Check:
    """A signature that is not there, as a failure; whose one is that is there, only people know."""
    absent = check.passed is None and (check.name != "signature" or check.detail == UNSIGNED)
    return replace(check, passed=False) if absent else check


UNSIGNED = (
    "unsigned: an unsigned bundle cannot show who made it, nor that manifest, hashes and tables "
    "were not rewritten together"
)


def check_signature(folder: Path, key: str | None) -> Check:
    """Whose signature a release has; with a key, whether it is that key's."""
    from sherd.release.signature import SIGNATURE, is_key, signed_by

    name = "signature"
    if not (folder / SIGNATURE).is_file():
        return Check(name=name, passed=None if key is None else False, detail=UNSIGNED)
    from sherd.signing_keys import fingerprint

    try:
        public = signed_by(folder)
    except UNREADABLE:
        public = None
    if public is None:
        return Check.failed(name, "is not a signature of this manifest")
    mark = fingerprint(public)
    if key is None:
        detail = f"by the key {mark}; compare it over another channel, or give --key"
        return Check.unmade(name, detail)
    same = is_key(public, key)
    return Check(name=name, passed=same, detail=f"by {'the' if same else 'another'} key: {mark}")


def _verify_tables(release: Release) -> Verification:
    """Verify a release that was not written: there are no files to look at."""
    manifest = json.loads(json.dumps(release.manifest))
    checks = [
        *check_hashes(manifest),
        *_contents(lambda: release.tables, manifest, lambda: release.documents),
        *_origin(manifest),
    ]
    return Verification(checks=tuple(checks), manifest=release.manifest)


def _released_tables(folder: Path, manifest: Mapping[str, Any], stack: ExitStack) -> Tables:
    """The tables of a bundle: left in their files where the method's checks take pieces."""
    traits = traits_of(manifest)
    if traits is not None and traits.verified_in_pieces:
        return stored_tables(folder, manifest, stack)
    return read_tables(folder, manifest)


def _contents(
    tables_of: Callable[[], Tables],
    manifest: Mapping[str, Any],
    documents_of: Callable[[], Mapping[str, Mapping[str, Any]]],
) -> list[Check]:
    """What the tables say, against plan, schema and the manifest's facts."""
    traits = traits_of(manifest)
    if traits is None:
        return verify_contents({}, manifest)
    try:
        tables, documents = tables_of(), documents_of()
        checks = [check_sizes(tables, manifest)] if "files" in manifest else []
        if "joint" in manifest and "data" not in tables:
            detail = "each owner's tables stand for themselves, without the facts to check them by"
            checks.append(Check.unmade("contents", detail))
        else:
            checks += verify_contents(tables, manifest, documents)
        if any(check.passed is False for check in checks):
            return checks
        from sherd.verifying.stated_facts import check_facts

        return [*checks, *check_facts(tables, manifest, traits, documents)]
    except UNREADABLE:
        # Hashes can be made to fit; what then makes no sense was not written by a release.
        return [Check.failed("contents", "the manifest and the tables do not fit together")]


def verify_contents(
    tables: Tables,
    manifest: Mapping[str, Any],
    documents: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Check]:
    """The checks of a release's tables that its method declares; none for an unknown method.

    The verifier of a method whose releases have documents is given them too.
    """
    name = str(manifest.get("plan", {}).get("method"))
    traits = traits_of(manifest)
    if traits is None:
        return [Check.unmade("contents", f"unknown method '{name}'")]
    if traits.verifier is None:
        return [Check.unmade("contents", f"the method '{name}' declares no checks of its releases")]
    more = (documents or {},) if traits.documents else ()
    checks: list[Check] = loaded(traits.verifier)(tables, manifest, *more)
    return checks


def _origin(manifest: Mapping[str, Any]) -> list[Check]:
    """Whether plan and schema lead to the promise, and how several owners came to it."""
    if "joint" not in manifest:
        return [check_promise(manifest)]
    from sherd.verifying.joint_manifest import check_joint, guarantee_of

    return [check_promise(manifest, guarantee_of), *check_joint(manifest)]


def _beside(old: Path, new: Path, manifest: Mapping[str, Any], checks: list[Check]) -> list[Check]:
    """What a release and an earlier one of a table that changed show together."""
    if any(check.passed is False for check in checks):
        detail = "the release itself is not what it says, so it was not compared with the earlier"
        return [Check.unmade("beside", detail)]
    if "fragments" not in manifest["facts"]:
        raise UsageError("--beside is for releases made of fragments", got=str(new))
    from sherd.verifying.consecutive_releases import verify_together

    earlier = Release.load(old).tables
    follows = _follows(old, manifest)
    try:
        return [*follows, *verify_together(earlier, read_tables(new, manifest), manifest)]
    except UNREADABLE:
        return [*follows, Check.failed("beside", "the two releases do not fit together")]


def _follows(old: Path, manifest: Mapping[str, Any]) -> list[Check]:
    """Whether a release that says which one it follows means the one beside it."""
    from sherd.release.bundle import MANIFEST, digest

    after = manifest["facts"].get("after")
    if after is None:
        return []
    same = after == digest(old / MANIFEST)
    detail = "the release beside it" if same else "another release, which may be between the two"
    return [Check(name="follows", passed=True if same else None, detail=detail)]


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
        return Check.failed("promise", f"cannot be derived: {error.what}")
    except UNREADABLE:
        detail = "cannot be derived: stamps, guarantee, plan or schema cannot be read"
        return Check.failed("promise", detail)
    unnamed: tuple[str, ...] = ()
    if manifest.get("format") == EARLIER_FORMAT:
        expected, unnamed = as_named_before(expected)
    elif expected != given:
        expected, unnamed = as_named_before(expected, NAMED_SINCE_FORMAT_2)
    if expected == given and not unnamed:
        return Check(name="promise", passed=True, detail="what plan and schema lead to")
    expected.pop("words"), given.pop("words", None)
    if expected == given and unnamed:
        detail = "an earlier promise; today's says in addition that it leaves aside: "
        return Check.unmade("promise", detail + "; ".join(_said(unnamed)))
    versions = manifest.get("versions")
    version = versions.get("sherd") if isinstance(versions, dict) else None
    if expected == given and isinstance(version, str) and version != __version__:
        detail = f"follows from plan and schema; its words are those of sherd {version}"
        return Check.unmade("promise", detail)
    return Check.failed("promise", "not what plan and schema lead to")
