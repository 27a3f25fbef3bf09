"""Re-checking a release from what was released alone.

Nothing here shares code with the methods: a mistake in one is not repeated in the other.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.audit.verify.bundle import check_files, read_tables
from sherd.audit.verify.check import Check
from sherd.errors import SherdError
from sherd.release import read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Check", "verify_release"]

VERIFIERS: dict[str, str] = {
    "dp": "sherd.audit.verify.masked",
    "idp": "sherd.audit.verify.masked",
    "dp-um": "sherd.audit.verify.masked",
    "idp-ls": "sherd.audit.verify.masked",
    "idp-cbls": "sherd.audit.verify.masked",
    "slice": "sherd.audit.verify.slicing",
    "mondrian": "sherd.audit.verify.slicing",
    "anatomy": "sherd.audit.verify.slicing",
    "fragment": "sherd.audit.verify.fragments",
    "diffgen": "sherd.audit.verify.generalised",
    "arbdistdp": "sherd.audit.verify.generalised",
}
"""The module that re-checks what a method's releases promise."""


def verify_release(folder: str | Path) -> list[Check]:
    """Every check that can be made of a release, with those that cannot named as such."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    checks = check_files(folder, manifest)
    if any(check.passed is False for check in checks):
        return [*checks, Check(name="contents", passed=None, detail="the files are not intact")]
    plan = manifest.get("plan")
    method = str(plan.get("method") if isinstance(plan, dict) else None)
    if method not in VERIFIERS:
        return [*checks, Check(name="contents", passed=None, detail=f"unknown method '{method}'")]
    verify: Callable[..., list[Check]] = importlib.import_module(VERIFIERS[method]).verify
    try:
        return [*checks, *verify(read_tables(folder, manifest), manifest)]
    except (SherdError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        # Hashes can be made to fit; what then makes no sense was not written by a release.
        detail = "the manifest and the tables do not fit together"
        return [*checks, Check(name="contents", passed=False, detail=detail)]
