"""Re-checking a release from what was released alone.

Nothing here shares code with the methods: a mistake in one is not repeated in the other.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.release.bundle import read_manifest
from sherd.verifying.bundle_files import check_files, check_sizes, read_tables
from sherd.verifying.check import UNREADABLE, Check
from sherd.verifying.file_form import check_form
from sherd.verifying.manifest_form import check_manifest, check_package

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Check", "verify_release"]

VERIFIERS: dict[str, str] = {
    "dp": "sherd.verifying.masked_tables",
    "idp": "sherd.verifying.masked_tables",
    "dp-um": "sherd.verifying.masked_tables",
    "idp-ls": "sherd.verifying.masked_tables",
    "idp-cbls": "sherd.verifying.masked_tables",
    "slice": "sherd.verifying.sliced_tables",
    "mondrian": "sherd.verifying.sliced_tables",
    "anatomy": "sherd.verifying.sliced_tables",
    "fragment": "sherd.verifying.fragmented_tables",
    "diffgen": "sherd.verifying.generalised_records",
    "arbdistdp": "sherd.verifying.generalised_records",
}
"""The module that re-checks what a method's releases promise."""


def verify_release(folder: str | Path) -> list[Check]:
    """Every check that can be made of a release, with those that cannot named as such."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    checks = [*check_manifest(manifest), *check_files(folder, manifest)]
    if any(check.passed is False for check in checks):
        detail = "manifest or files are not intact"
        return [*checks, Check(name="contents", passed=None, detail=detail)]
    checks.append(check_package(folder, manifest))
    method = str(manifest["plan"].get("method"))
    if method not in VERIFIERS:
        return [*checks, Check(name="contents", passed=None, detail=f"unknown method '{method}'")]
    try:
        checks.append(check_form(folder, manifest))
        return [*checks, *_contents(folder, manifest, VERIFIERS[method])]
    except UNREADABLE:
        # Hashes can be made to fit; what then makes no sense was not written by a release.
        detail = "the manifest and the tables do not fit together"
        return [*checks, Check(name="contents", passed=False, detail=detail)]


def _contents(folder: Path, manifest: dict[str, Any], module: str) -> list[Check]:
    tables = read_tables(folder, manifest)
    checks = [check_sizes(tables, manifest)]
    if "joint" in manifest and "data" not in tables:
        detail = "each owner's tables stand for themselves, without the facts to check them by"
        checks.append(Check(name="contents", passed=None, detail=detail))
    else:
        verify: Callable[..., list[Check]] = importlib.import_module(module).verify
        checks += verify(tables, manifest)
    if any(check.passed is False for check in checks):
        return checks
    from sherd.verifying.stated_facts import check_facts

    return [*checks, *check_facts(tables, manifest)]
