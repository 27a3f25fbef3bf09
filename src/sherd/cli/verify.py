"""``sherd verify``: re-check a release from what was released alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd import __version__
from sherd.cli.options import emit_json, json_option
from sherd.errors import SherdError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.guarantees import Guarantee
    from sherd.verifying.check import Check


@click.command()
@click.argument("release", type=click.Path(path_type=Path))
@click.option(
    "--beside",
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="An earlier release of the same fragments: what somebody who holds both can tell.",
)
@json_option
def verify(release: Path, beside: Path | None, as_json: bool) -> int:
    """Re-check the RELEASE folder: hashes, schema, bounds, cluster sizes, the promise.

    Says what it could not check. Exit code 4 where a check failed, also where the folder has
    no manifest that can be read.
    """
    checks = _checks(release, beside)
    failed = [check for check in checks if check.passed is False]
    if as_json:
        emit_json({"passed": not failed, "checks": [vars(check) for check in checks]})
        return 4 if failed else 0
    signs = {True: "ok  ", False: "FAIL", None: "?   "}
    for check in checks:
        click.echo(f"{signs[check.passed]}  {check.name}: {check.detail}")
    unknown = sum(check.passed is None for check in checks)
    made = len(checks) - unknown
    if failed:
        click.echo(f"error: {len(failed)} of {made} checks failed", err=True)
        return 4
    click.echo(f"{made} checks passed; {unknown} could not be made from the release alone")
    return 0


def _checks(release: Path, beside: Path | None) -> list[Check]:
    """Every check of a release; a folder whose manifest cannot be read fails its only one."""
    from sherd.release.bundle import read_manifest
    from sherd.verifying import verify_release
    from sherd.verifying.check import Check

    try:
        manifest = read_manifest(release)
    except UsageError as error:
        if not release.is_dir():
            raise
        detail = f"{error.what}; it must be {error.must}"
        return [Check(name="manifest", passed=False, detail=detail)]
    checks = [*verify_release(release), _promise(manifest), *_joint(manifest)]
    if beside is not None:
        whole = all(check.passed is not False for check in checks)
        checks += _together(beside, release) if whole else [_not_compared()]
    return checks


def _not_compared() -> Check:
    from sherd.verifying.check import Check

    detail = "the release itself is not what it says, so it was not compared with the earlier one"
    return Check(name="beside", passed=None, detail=detail)


def _together(old: Path, new: Path) -> list[Check]:
    """What two releases of a table that changed show together."""
    from sherd.release.bundle import Release
    from sherd.verifying.check import UNREADABLE, Check
    from sherd.verifying.consecutive_releases import verify_together

    loaded = Release.load(new)
    if "fragments" not in loaded.manifest["facts"]:
        raise UsageError("--beside is for releases made of fragments", got=str(new))
    earlier = Release.load(old).tables
    try:
        compared = verify_together(earlier, loaded.tables, loaded.manifest)
    except UNREADABLE:
        detail = "the two releases do not fit together"
        compared = [Check(name="beside", passed=False, detail=detail)]
    return [*_named(old, loaded.manifest), *compared]


def _named(old: Path, manifest: Mapping[str, Any]) -> list[Check]:
    """Whether a release that says which one it follows means the one beside it."""
    from sherd.release.bundle import MANIFEST, digest
    from sherd.verifying.check import Check

    after = manifest["facts"].get("after")
    if after is None:
        return []
    same = after == digest(old / MANIFEST)
    detail = "the release beside it" if same else "another release, which may be between the two"
    return [Check(name="follows", passed=True if same else None, detail=detail)]


def _joint(manifest: dict[str, Any]) -> list[Check]:
    """The plan and the signatures of a release by several owners."""
    if "joint" not in manifest:
        return []
    from sherd.federation.wire.optional_parts import OWNER, require

    require(OWNER)
    from sherd.federation.aggregator.joint_manifest import check_joint

    return check_joint(manifest)


def _guarantee(manifest: dict[str, Any]) -> Guarantee:
    """The promise that the plan leads to, the owners' joint plan if there is one."""
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

    if "joint" in manifest:
        from sherd.federation.aggregator.joint_manifest import guarantee_of

        return guarantee_of(manifest)
    return Plan.from_data(manifest["plan"]).guarantee(Schema.from_data(manifest["schema"]))


def _promise(manifest: dict[str, Any]) -> Check:
    """Whether the promise is the one that plan and schema lead to."""
    from sherd.verifying.check import UNREADABLE, Check

    try:
        guarantee = _guarantee(manifest)
        if any("no guarantee" in stamp for stamp in manifest["stamps"]):
            guarantee = guarantee.seeded()
        expected, given = guarantee.as_data(), dict(manifest["guarantee"])
    except SherdError as error:
        return Check(name="promise", passed=False, detail=f"cannot be derived: {error.what}")
    except UNREADABLE:
        detail = "cannot be derived: stamps, guarantee, plan or schema cannot be read"
        return Check(name="promise", passed=False, detail=detail)
    if expected == given:
        return Check(name="promise", passed=True, detail="what plan and schema lead to")
    expected.pop("words"), given.pop("words", None)
    versions = manifest.get("versions")
    version = versions.get("sherd") if isinstance(versions, dict) else None
    if expected == given and isinstance(version, str) and version != __version__:
        detail = f"follows from plan and schema; its words are those of sherd {version}"
        return Check(name="promise", passed=None, detail=detail)
    return Check(name="promise", passed=False, detail="not what plan and schema lead to")
