"""Re-checking a release from what was released alone.

Nothing here shares code with the methods: a mistake in one is not repeated in the other.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.audit.verify.bundle import check_files, read_tables
from sherd.audit.verify.check import Check
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
    method = str(manifest.get("plan", {}).get("method"))
    if method not in VERIFIERS:
        return [*checks, Check(name="contents", passed=None, detail=f"unknown method '{method}'")]
    verify: Callable[..., list[Check]] = importlib.import_module(VERIFIERS[method]).verify
    tables: dict[str, Any] = read_tables(folder, manifest)
    return [*checks, *verify(tables, manifest)]
