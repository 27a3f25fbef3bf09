"""Re-checking a release from what was released alone.

Nothing here shares code with the methods: a mistake in one is not repeated in the other. Which
of the checks fits a method, the method declares (``sherd.release.traits``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.release.bundle import read_manifest
from sherd.release.method import traits_of
from sherd.release.traits import Traits, loaded
from sherd.verifying.bundle_files import check_files, check_sizes, read_documents, read_tables
from sherd.verifying.check import UNREADABLE, Check
from sherd.verifying.manifest_form import check_manifest, check_package

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

__all__ = ["Check", "verify_contents", "verify_release"]


def verify_release(folder: str | Path) -> list[Check]:
    """Every check that can be made of a release, with those that cannot named as such."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    checks = [*check_manifest(manifest), *check_files(folder, manifest)]
    if any(check.passed is False for check in checks):
        detail = "manifest or files are not intact"
        return [*checks, Check(name="contents", passed=None, detail=detail)]
    checks.append(check_package(folder, manifest))
    traits = traits_of(manifest)
    if traits is None:
        return [*checks, *verify_contents({}, manifest)]
    try:
        return [*checks, *_contents(folder, manifest, traits)]
    except UNREADABLE:
        # Hashes can be made to fit; what then makes no sense was not written by a release.
        detail = "the manifest and the tables do not fit together"
        return [*checks, Check(name="contents", passed=False, detail=detail)]


def verify_contents(
    tables: Mapping[str, pa.Table],
    manifest: Mapping[str, Any],
    documents: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Check]:
    """The checks of a release's tables that its method declares; none for an unknown method.

    The verifier of a method whose releases have documents is given them too.
    """
    name = str(manifest.get("plan", {}).get("method"))
    traits = traits_of(manifest)
    if traits is None:
        return [Check(name="contents", passed=None, detail=f"unknown method '{name}'")]
    if traits.verifier is None:
        detail = f"the method '{name}' declares no checks of its releases"
        return [Check(name="contents", passed=None, detail=detail)]
    more = (documents or {},) if traits.documents else ()
    checks: list[Check] = loaded(traits.verifier)(tables, manifest, *more)
    return checks


def _contents(folder: Path, manifest: dict[str, Any], traits: Traits) -> list[Check]:
    tables = read_tables(folder, manifest)
    checks = [check_sizes(tables, manifest)]
    if "joint" in manifest and "data" not in tables:
        detail = "each owner's tables stand for themselves, without the facts to check them by"
        checks.append(Check(name="contents", passed=None, detail=detail))
    else:
        checks += verify_contents(tables, manifest, read_documents(folder, manifest))
    if any(check.passed is False for check in checks):
        return checks
    from sherd.verifying.stated_facts import check_facts

    return [*checks, *check_facts(tables, manifest, traits)]
