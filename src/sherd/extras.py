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
"""Modules whose name is not that of the package that ships them."""

_REQUIREMENT = re.compile(r"^([\w.-]+).*?extra == ['\"]([\w-]+)['\"]")


def _requirements() -> list[tuple[str, str]]:
    """Every package that an extra installs, with the extra's name."""
    matches = map(_REQUIREMENT.match, metadata.requires("sherd") or ())
    return [(_plain(match[1]), match[2]) for match in matches if match]


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _not_installed(package: str, extra: str) -> MissingPartError:
    return MissingPartError(
        f"this needs the package '{package}', which is not installed",
        do=f"pip install 'sherd[{extra}]'",
    )


def extra_of(module: str) -> str | None:
    """The extra that installs a module; None where none does.

    >>> extra_of("numba"), extra_of("sklearn"), extra_of("antigravity")
    ('fragments', 'report', None)
    """
    top = module.partition(".")[0]
    wanted = _plain(_DISTRIBUTIONS.get(top, top))
    extras = (extra for package, extra in _requirements() if package == wanted)
    return next((extra for extra in extras if extra != "all"), None)


def check_extras(names: Iterable[str]) -> None:
    """Raise MissingPartError where a package of these extras is not installed.

    >>> check_extras(["slicing"])
    """
    modules = {distribution: module for module, distribution in _DISTRIBUTIONS.items()}
    for name in names:
        for package, extra in _requirements():
            if extra == name and package != "sherd":
                module = modules.get(package, package).replace("-", "_")
                if find_spec(module) is None:
                    raise _not_installed(package, name)


def missing_part(error: ImportError) -> MissingPartError | None:
    """The error a user should see for a package that is not installed; None for any other."""
    extra = extra_of(error.name or "")
    return None if extra is None else _not_installed(str(error.name).partition(".")[0], extra)


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
