"""Visibility constraints: what must be seen together in some fragment, as a Boolean formula.

A formula names attributes, joined by ``and`` and ``or`` with parentheses; names that are not
plain words stand in quotation marks. There is no ``not``: what must *not* be seen together is a
confidentiality constraint. A fragmentation respects a formula where one of its fragments, by
the attributes that lie in it, makes it true.

>>> sorted(map(sorted, alternatives('zip and (job or "marital status")')))
[['job', 'zip'], ['marital status', 'zip']]
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sherd.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable

Alternatives = frozenset[frozenset[str]]
"""Sets of attributes of which one must lie in one fragment, none of them part of another."""

MOST = 256
"""Alternatives of one formula at most."""

_TOKEN = re.compile(r'\s*(?:([()])|"([^"]*)"|([^\s()"]+))')


def alternatives(formula: str) -> Alternatives:
    """The smallest sets of attributes that make a formula true."""
    tokens = _tokens(formula)
    sets, end = _either(tokens, 0, formula)
    if end != len(tokens):
        raise _wrong(formula)
    return sets


def _wrong(formula: str) -> PlanError:
    return PlanError(
        "a visibility constraint cannot be understood",
        must="attributes joined by 'and' and 'or', with parentheses",
        got=repr(formula),
    )


def _tokens(formula: str) -> list[tuple[str, str]]:
    words = []
    at = 0
    while formula[at:].strip():
        match = _TOKEN.match(formula, at)
        if match is None:
            raise _wrong(formula)
        mark, quoted, word = match.groups()
        if mark is not None or (word is not None and word.lower() in ("and", "or")):
            words.append(("mark", mark or word.lower()))
        else:
            words.append(("name", quoted if quoted is not None else word))
        at = match.end()
    return words


def _either(tokens: list[tuple[str, str]], at: int, formula: str) -> tuple[Alternatives, int]:
    sets, at = _both(tokens, at, formula)
    while at < len(tokens) and tokens[at] == ("mark", "or"):
        more, at = _both(tokens, at + 1, formula)
        sets = _smallest(sets | more, formula)
    return sets, at


def _both(tokens: list[tuple[str, str]], at: int, formula: str) -> tuple[Alternatives, int]:
    sets, at = _one(tokens, at, formula)
    while at < len(tokens) and tokens[at] == ("mark", "and"):
        more, at = _one(tokens, at + 1, formula)
        sets = _smallest((a | b for a in sets for b in more), formula)
    return sets, at


def _one(tokens: list[tuple[str, str]], at: int, formula: str) -> tuple[Alternatives, int]:
    kind, text = tokens[at] if at < len(tokens) else ("end", "")
    if kind == "name" and text:
        return frozenset({frozenset({text})}), at + 1
    if (kind, text) == ("mark", "("):
        sets, at = _either(tokens, at + 1, formula)
        if at < len(tokens) and tokens[at] == ("mark", ")"):
            return sets, at + 1
    raise _wrong(formula)


def _smallest(sets: Iterable[frozenset[str]], formula: str) -> Alternatives:
    every = set(sets)
    smallest = frozenset(one for one in every if not any(other < one for other in every))
    if len(smallest) > MOST:
        raise PlanError(
            "a visibility constraint has too many alternatives",
            must=f"at most {MOST}",
            got=repr(formula),
            do="split it into several",
        )
    return smallest
