"""What others must know of a method, declared by the method itself.

Verification, the audit and joint releases look here instead of keeping lists of method names.
Functions above this room are named by import path (``module:function``) and imported when they
are needed, so that declaring a verifier does not import it.

>>> traits = Traits(family="toy", rows_are_records=True, unless={"guarantee": "strict"})
>>> traits.of_records({"guarantee": "paper"}), traits.of_records({"guarantee": "strict"})
(True, False)
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """How to begin with a method: ``settings`` for a first plan, and what they give.

    What is differentially private as a whole comes first; then what suits the number of records
    (``least_rows``); then the order of ``place``. Without settings the method needs something
    that only its user knows.
    """

    place: int
    gives: str
    all_differential: bool = False
    settings: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    least_rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How a method's releases are checked, read back as records, and compared.

    - ``family``: the folder of ``sherd.methods`` it belongs to, or a name of its own.
    - ``rows_are_records``: whether ``data`` has one row for every record; ``unless`` names
      the settings of a plan under which it has not.
    - ``rows_are_drawn``: whether ``data`` has as many rows as there are records, drawn from
      something that was measured; none of them stands for a record.
    - ``rows_are_classes``: whether every row of ``data`` comes from one record and says no more
      of it than the class it is in.
    - ``masking``: how each attribute gets its noise, where values are masked by rank: ``centre``
      is what noise is added to (``value``, ``mean`` or ``trimmed`` mean of a cluster), ``reach``
      how far one record moves it (``domain``, ``local`` or ``cluster``).
    - ``noise``: ``(case, evidence) -> list[Check]``, how the audit tests released noise against
      the original.
    - ``tables``: the tables every release has; None where a plan decides how many there are.
    - ``documents``: the JSON documents every release has beside its tables.
    - ``verifier``: ``(tables, manifest) -> list[Check]``, the checks of a release's contents; given
      the documents too where releases have any.
    - ``verified_in_pieces``: whether ``verifier`` and ``facts`` also take tables that stay in their
      files (``sherd.verifying.stored_table``), so that a release of any size is verified.
    - ``facts``: ``(tables, manifest) -> {name: test}``, what a manifest must state.
    - ``drawing``: ``(tables, manifest) -> Drawable``, how records are drawn from a release that
      is not made of records.
    - ``alternative``: what a plan of this method adds when the audit sets it beside another on
      the risk-utility map; None where it is not set beside others.
    - ``following``: the parameters that only a release which follows another has.
    - ``engines``: the engines the method runs on (see ``sherd.engines``).
    - ``query``: ``(tables, manifest, sql, *, own) -> Answer``, what answers SQL over a release;
      given the documents too where releases have any.
    - ``needs``: the extras to install before the method can run, as in ``sherd[slicing]``.
    - ``suggestion``: how to begin with the method where nobody has chosen one; None where it is
      nobody's first choice.
    """

    family: str
    rows_are_records: bool = False
    unless: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    rows_are_drawn: bool = False
    rows_are_classes: bool = False
    masking: Mapping[str, str] | None = None
    noise: str | None = None
    tables: tuple[str, ...] | None = ("data",)
    documents: tuple[str, ...] = ()
    verifier: str | None = None
    verified_in_pieces: bool = False
    facts: str | None = None
    drawing: str | None = None
    alternative: Mapping[str, Any] | None = None
    following: tuple[str, ...] = ()
    engines: tuple[str, ...] = ("memory",)
    query: str | None = None
    needs: tuple[str, ...] = ()
    suggestion: Suggestion | None = None

    def of_records(self, plan: Mapping[str, Any]) -> bool:
        """Whether a release by this plan has one row for every record."""
        return self.rows_are_records and not any(
            plan.get(name) == value for name, value in self.unless.items()
        )

    def has_row_map(self, plan: Mapping[str, Any]) -> bool:
        """Whether an owner can be told from which record each row comes."""
        return self.rows_are_classes or self.of_records(plan)


def loaded(path: str) -> Callable[..., Any]:
    """The function that a declaration names.

    >>> loaded("math:floor")(2.5)
    2
    """
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
