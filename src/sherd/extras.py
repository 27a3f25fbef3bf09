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
        requirement = _REQUIREMENT.match(line)
        if (
            requirement
            and re.sub(r"[-_.]+", "-", requirement[1]).lower() == wanted
            and requirement[2] != "all"
        ):
            return requirement[2]
    return None


def check_extras(names: Iterable[str]) -> None:
    """Raise MissingPartError where a package of these extras is not installed.

    >>> check_extras(["slicing"])
    """
    modules = {distribution: module for module, distribution in _DISTRIBUTIONS.items()}
    for name in names:
        for line in metadata.requires("sherd") or ():
            requirement = _REQUIREMENT.match(line)
            if requirement is None or requirement[2] != name or requirement[1] == "sherd":
                continue
            module = modules.get(requirement[1].lower(), requirement[1]).replace("-", "_")
            if find_spec(module) is None:
                raise MissingPartError(
                    f"this needs the package '{requirement[1]}', which is not installed",
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


AGGREGATOR = ("cryptography", "rbcl", "httpx", "fastapi", "uvicorn", "sqlalchemy", "alembic")
OWNER = ("cryptography", "rbcl", "httpx")
PAGE = (*OWNER, "starlette", "uvicorn", "jinja2")
STUDIO = ("starlette", "uvicorn", "jinja2", "multipart", "ruamel.yaml", "sklearn", "matplotlib")


def require(modules: tuple[str, ...] = AGGREGATOR) -> None:
    """Raise MissingPartError where one of the modules is not installed; imports none."""
    studio = modules is STUDIO
    for name in modules:
        if find_spec(name) is None:
            raise MissingPartError(
                f"{'the studio needs' if studio else 'joint releases need'} an optional part",
                got=f"no module '{name}'",
                do=f"install it: pip install 'sherd[{'studio' if studio else 'federation'}]'",
            )
