"""Audit: what a release is worth, what it gives away, whether its promise holds.

``sherd.audit`` is this package and can be called: ``sherd.audit(original=table,
release=release)`` gives an ``Audit`` to look into or to save as a report.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sherd.audit.result import Audit


class _CallableModule(ModuleType):
    """A module that can be called.

    The verb and the package share the name that users expect of both, and Python puts the
    package in the place of any attribute of the same name as soon as something below it is
    imported. So the package itself answers the call, whoever imported what first.
    """

    def __call__(self, original: Any, release: Any, **options: Any) -> Audit:
        """Audit a release; see ``sherd.audit.run.run_audit`` for the options."""
        from sherd.audit.run import run_audit

        return run_audit(original, release, **options)


sys.modules[__name__].__class__ = _CallableModule
