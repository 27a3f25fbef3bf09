"""Which optional part of Sherd a missing package belongs to, as its own metadata says."""

from __future__ import annotations

import re
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sherd.errors import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterable

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml", "adbc_driver_manager": "adbc"}
"""Modules that are called otherwise than the package that ships them."""

_REQUIREMENT = re.compile(r"^([\w.-]+).*?extra == ['\"]([\w-]+)['\"]")


def extra_of(module: str) -> str | None:
    """The extra that installs a module, None where none does.

    >>> extra_of("numba"), extra_of("sklearn"), extra_of("antigravity")
    ('fragments', 'report', None)
    """
    top = module.partition(".")[0]
    wanted = re.sub(r"[-_.]+", "-", _DISTRIBUTIONS.get(top, top)).lower()
    for line in metadata.requires("sherd") or ():
        found = _REQUIREMENT.match(line)
        if found and re.sub(r"[-_.]+", "-", found[1]).lower() == wanted and found[2] != "all":
            return found[2]
    return None


def check_extras(names: Iterable[str]) -> None:
    """Raise MissingPartError where a package of these extras is not installed.

    >>> check_extras(["slicing"])
    """
    modules = {distribution: module for module, distribution in _DISTRIBUTIONS.items()}
    for name in names:
        for line in metadata.requires("sherd") or ():
            found = _REQUIREMENT.match(line)
            if found is None or found[2] != name or found[1] == "sherd":
                continue
            module = modules.get(found[1].lower(), found[1]).replace("-", "_")
            if find_spec(module) is None:
                raise MissingPartError(
                    f"this needs the package '{found[1]}', which is not installed",
                    do=f"pip install 'sherd[{name}]'",
                )


def missing_part(error: ImportError) -> MissingPartError | None:
    """The error a user should see for a package that is not installed; None for another one."""
    extra = extra_of(error.name or "")
    if extra is None:
        return None
    return MissingPartError(
        f"this needs the package '{str(error.name).partition('.')[0]}', which is not installed",
        do=f"pip install 'sherd[{extra}]'",
    )
