"""Every error Sherd raises on purpose.

A message says what is wrong, what it must be, what was given and what to do. It
may quote a parameter or an attribute's name; it never quotes a cell's value, since
messages travel to logs and to other people. The tree:

    SherdError                      exit code
    ├── UsageError (ValueError)       2   wrong usage or input
    │   ├── SchemaError                   the schema contradicts itself or the method
    │   ├── PlanError                     a parameter or a combination of them
    │   ├── TableError                    the data does not fit the schema
    │   ├── FormatError                   a file cannot be read as what it claims to be
    │   ├── InfeasibleError               no release with these parameters exists
    │   └── OutputExistsError             the output already exists
    ├── RefusedError (PermissionError) 3  refused by policy
    │   ├── BudgetError                   the population's budget does not allow it
    │   └── PolicyError                   an owner's or the product's policy forbids it
    ├── VerificationError             4   a release is not what it says it is
    ├── OutsideError (OSError)        5   disk, network or peer
    │   ├── StorageError                  disk or database
    │   ├── ConnectionFailedError         network or peer
    │   ├── PeerError                     a peer says what the protocol does not allow
    │   └── MissingPartError          3   an optional part is not installed
    └── InternalError (RuntimeError)  1   our bug

>>> str(PlanError("the 'k' parameter is too small", must="at least 3", got="2",
...               do="raise k, or choose dp-um"))
"the 'k' parameter is too small; must be at least 3; got 2; raise k, or choose dp-um"
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Made = TypeVar("Made")


class SherdError(Exception):
    """Base of every error of Sherd, with its parts as attributes."""

    code: ClassVar[str] = "sherd"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        what: str,
        *,
        must: str | None = None,
        got: str | None = None,
        do: str | None = None,
    ) -> None:
        self.what = what
        self.must = must
        self.got = got
        self.do = do
        parts = [what]
        if must is not None:
            parts.append(f"must be {must}")
        if got is not None:
            parts.append(f"got {got}")
        if do is not None:
            parts.append(do)
        super().__init__("; ".join(parts))

    def __str__(self) -> str:
        return str(self.args[0])

    def as_data(self) -> dict[str, str | int | None]:
        """The error as plain data, for ``--json`` and for the wire.

        >>> RefusedError("no").as_data()["code"]
        'refused'
        """
        return {
            "code": self.code,
            "exit_code": self.exit_code,
            "what": self.what,
            "must": self.must,
            "got": self.got,
            "do": self.do,
        }


class UsageError(SherdError, ValueError):
    """Wrong usage or wrong input: nothing was done, correct it and call again."""

    code = "usage"
    exit_code = 2


class SchemaError(UsageError):
    """The schema contradicts itself, or lacks what the method needs."""

    code = "schema"


class PlanError(UsageError):
    """A parameter, or a combination of parameters, that no method accepts."""

    code = "plan"


class TableError(UsageError):
    """The data does not fit the schema."""

    code = "table"


class FormatError(UsageError):
    """A file cannot be read as what it claims to be."""

    code = "format"


class InfeasibleError(UsageError):
    """No release with these parameters exists for this table."""

    code = "infeasible"


class OutputExistsError(UsageError):
    """The output already exists, and overwriting was not asked for."""

    code = "output-exists"


class RefusedError(SherdError, PermissionError):
    """Refused by a policy or a budget: the same call will be refused again."""

    code = "refused"
    exit_code = 3


class BudgetError(RefusedError):
    """The population's privacy budget does not allow this release."""

    code = "budget"


class PolicyError(RefusedError):
    """A policy forbids this."""

    code = "policy"


class VerificationError(SherdError):
    """A release, a signature or a ledger is not what it says it is."""

    code = "verification"
    exit_code = 4


class OutsideError(SherdError, OSError):
    """Disk, network or peer: the same call may succeed later."""

    code = "outside"
    exit_code = 5


class StorageError(OutsideError):
    """Disk or database failed."""

    code = "storage"


class ConnectionFailedError(OutsideError):
    """Network or peer failed."""

    code = "connection"


class PeerError(OutsideError):
    """A peer says what the protocol does not allow; ``reason`` is the code sent back to it."""

    code = "peer"

    def __init__(self, what: str, *, reason: str = "malformed", **parts: str | None) -> None:
        super().__init__(what, **parts)
        self.reason = reason

    def as_data(self) -> dict[str, str | int | None]:
        """The error as plain data, with the reason's code."""
        return {**super().as_data(), "reason": str(self.reason)}


class MissingPartError(OutsideError):
    """An optional part of Sherd, or a program it uses, is not installed."""

    code = "missing-part"
    exit_code = 3


class InternalError(SherdError, RuntimeError):
    """A bug of ours: a promise the code makes to itself does not hold."""

    code = "internal"
    exit_code = 1


def catalogue() -> dict[str, type[SherdError]]:
    """Every error class by its code, base first.

    >>> catalogue()["budget"].exit_code
    3
    """
    kinds: dict[str, type[SherdError]] = {}
    waiting: list[type[SherdError]] = [SherdError]
    while waiting:
        error = waiting.pop(0)
        kinds.setdefault(error.code, error)
        waiting.extend(error.__subclasses__())
    return kinds


def together(errors: Sequence[SherdError], what: str) -> SherdError:
    """One error for several of the same kind, so all of them can be fixed at once.

    A single one is given back as it is; otherwise each is a note of the error. Errors that are
    made of several themselves are taken apart first.
    """
    if len(errors) == 1:
        return errors[0]
    notes = [note for error in errors for note in getattr(error, "__notes__", ()) or [str(error)]]
    do = "put each of them right; they are listed below"
    whole = type(errors[0])(f"{len(notes)} {what}", do=do)
    for note in notes:
        whole.add_note(note)
    return whole


class Noting:
    """A block whose error of one kind is collected, so the checks after it are made too."""

    def __init__(self, kind: type[SherdError], errors: list[SherdError]) -> None:
        self._kind, self._errors = kind, errors

    def __enter__(self) -> None:
        """There is nothing to prepare."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, self._kind):
            return False
        self._errors.append(error)
        return True


def of_each(make: Callable[[str], Made], attributes: Iterable[str]) -> list[Made]:
    """What ``make`` gives for each attribute; one error names all for which it fails."""
    made: list[Made] = []
    wrong: list[SherdError] = []
    for name in attributes:
        with Noting(SchemaError, wrong):
            made.append(make(name))
    if wrong:
        raise together(wrong, "attributes do not fit the method")
    return made


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint for a mistyped name, empty when nothing is near.

    >>> did_you_mean("idp-sl", ["dp", "idp-ls"])
    "did you mean 'idp-ls'?"
    >>> did_you_mean("zzz", ["dp"])
    ''
    """
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else ""


def kind_and_place(error: BaseException) -> str:
    """The type of an error that is our bug, and the line of ours it came from; never its text."""
    place, trace = "?", error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if "sherd" in path:
            place = f"{path.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} in {place}"
