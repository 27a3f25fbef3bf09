"""A method whose extra is not installed says so before anything is reserved or read."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd import extras
from sherd.budget.ledger import Ledger
from sherd.errors import MissingPartError

if TYPE_CHECKING:
    from pathlib import Path

PLANS: dict[str, tuple[dict[str, Any], str, str]] = {
    "mondrian": ({"k": 2}, "numba", "slicing"),
    "slice": ({"l": 2}, "kmedoids", "slicing"),
    "anatomy": ({"l": 2}, "numba", "slicing"),
    "fragment": ({"constraints": {"constraints": [["a", "s"]]}, "looseness": 2}, "ortools",
                 "fragments"),
}  # fmt: skip


@pytest.mark.parametrize("method", PLANS)
def test_the_extra_of_the_method_is_named(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its own extra, not with another that ships the package, too; nothing is booked."""
    more, package, extra = PLANS[method]
    absent = lambda name: None if name == package else find_spec(name)  # noqa: E731
    monkeypatch.setattr(extras, "find_spec", absent)
    attributes = {"a": {"type": "integer"}, "s": {"type": "category", "role": "sensitive"}}
    schema = sherd.Schema.from_data({"attributes": attributes})
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(MissingPartError, match=f"'{package}'") as missing:
        sherd.protect(
            pa.table({"a": [1], "s": ["x"]}),
            schema,
            sherd.Plan(method=method, **more),
            ledger=ledger,
        )
    assert missing.value.do == f"pip install 'sherd[{extra}]'"
    assert missing.value.exit_code == 3
    assert ledger.entries() == []
