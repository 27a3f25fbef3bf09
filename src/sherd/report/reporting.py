"""The doors `sherd.audit` and `sherd.compare`: results that can be saved as reports.

The audit lies below the report and knows nothing of it; here its results are handed the writer.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sherd import report
from sherd.auditing import run
from sherd.auditing.verdict import comparison
from sherd.auditing.verdict.audit_result import Reportable

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_Result = TypeVar("_Result", bound=Reportable)


def _reported(make: Callable[_P, _Result]) -> Callable[_P, _Result]:
    @functools.wraps(make)
    def made(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        return replace(make(*args, **kwargs), writer=report)

    return made


audit = _reported(run.audit)
compare = _reported(comparison.compare)
