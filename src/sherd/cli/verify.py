"""``sherd verify``: re-check a release from what was released alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    except (SherdError, KeyError) as error:
        return Check(name="promise", passed=False, detail=f"cannot be derived: {error}")
    if any("no guarantee" in stamp for stamp in manifest.get("stamps", [])):
        guarantee = guarantee.seeded()
    same = guarantee.as_data() == manifest.get("guarantee")
    detail = "what plan and schema lead to" if same else "not what plan and schema lead to"
    return Check(name="promise", passed=same, detail=detail)
