"""``sherd verify``: re-check a release from what was released alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd import __version__
from sherd.cli.options import emit_json, json_option
from sherd.errors import SherdError

if TYPE_CHECKING:
    from sherd.audit.verify.check import Check


@click.command()
@click.argument("release", type=click.Path(path_type=Path))
@json_option
def verify(release: Path, as_json: bool) -> int:
    """Re-check the RELEASE folder: hashes, schema, bounds, cluster sizes, the promise.

    Says what it could not check. Exit code 4 where a check failed.
    """
    from sherd.audit.verify import verify_release
    from sherd.release import read_manifest

    checks = [*verify_release(release), _promise(read_manifest(release))]
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


def _promise(manifest: dict[str, Any]) -> Check:
    """Whether the promise is the one that plan and schema lead to."""
    from sherd.audit.verify.check import Check
    from sherd.plan import Plan
    from sherd.tables.schema import Schema

    try:
        guarantee = Plan.from_data(manifest["plan"]).guarantee(Schema.from_data(manifest["schema"]))
    except SherdError as error:
        return Check(name="promise", passed=False, detail=f"cannot be derived: {error.what}")
    except (KeyError, TypeError):
        return Check(name="promise", passed=False, detail="the manifest holds no plan or schema")
    if any("no guarantee" in stamp for stamp in manifest.get("stamps", [])):
        guarantee = guarantee.seeded()
    expected, given = guarantee.as_data(), dict(manifest.get("guarantee") or {})
    if expected == given:
        return Check(name="promise", passed=True, detail="what plan and schema lead to")
    expected.pop("words"), given.pop("words", None)
    version = manifest.get("versions", {}).get("sherd")
    if expected == given and version != __version__:
        detail = f"follows from plan and schema; its words are those of sherd {version}"
        return Check(name="promise", passed=None, detail=detail)
    return Check(name="promise", passed=False, detail="not what plan and schema lead to")
