"""The methods, one folder a family, and what can be said of each without running it.

>>> names()[:3]
('dp', 'idp', 'dp-um')
>>> describe("dp")["title"]
'Differential privacy by noise on every value'
"""

from __future__ import annotations

from typing import Any

from sherd.release.method import Describing, find
from sherd.release.method import names as _names

__all__ = ["describe", "names"]


def names() -> tuple[str, ...]:
    """List every method's name: the built-in ones, then those that other packages ship."""
    return _names()


def describe(name: str) -> dict[str, Any]:
    """Describe a method as plain data: what it is, its promises and its parameters."""
    method = find(name)
    promises = method.describe() if isinstance(method, Describing) else ()
    return {
        "name": method.name,
        "title": method.title,
        "summary": method.summary,
        "family": method.traits.family,
        "needs": list(method.traits.needs),
        "promises": [promise.as_data() for promise in promises],
        "parameters": [
            {
                "name": p.name,
                "required": p.required,
                "default": p.default,
                "must": p.must(),
                "help": p.help,
            }
            for p in method.parameters
        ],
    }
