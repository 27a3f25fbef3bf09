"""A second release of one population, where the first one's promise knows of no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.budget.ledger import Ledger
from sherd.errors import UsageError
from sherd.release.bundle import MANIFEST, digest
from sherd.release.preceding import follow_release

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "who": {"type": "integer", "role": "identifier"},
            "age": {"type": "integer", "domain": ["0", "99"]},
            "ill": {"type": "category", "role": "sensitive"},
        },
        "population": "people of the clinic",
    }
)
TABLE = pa.table(
    {"who": range(60), "age": [i % 40 for i in range(60)], "ill": [f"i{i % 6}" for i in range(60)]}
)
PLANS: dict[str, dict[str, Any]] = {
    "slice": {"l": 3},
    "anatomy": {"l": 3},
    "mondrian": {"k": 4, "l": 2},
    "fragment": {"looseness": 2, "constraints": {"constraints": [["age", "ill"]]}, "suppress": 0.6},
}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An empty ledger."""
    return Ledger(tmp_path / "ledger.db")


@pytest.mark.parametrize("method", PLANS)
@pytest.mark.parametrize("name", [None, "People of  the CLINIC"])
def test_a_second_release_is_refused_before_data_is_read(
    ledger: Ledger, tmp_path: Path, method: str, name: str | None
) -> None:
    """However the population is spelled, and by whichever of these methods the first was made."""
    plan = sherd.Plan(method=method, **PLANS[method])
    sherd.protect(TABLE, SCHEMA, sherd.Plan(method="slice", l=3), ledger=ledger)

    def read() -> pa.Table:
        raise AssertionError("data was read")

    with pytest.raises(UsageError, match=r"(?s)this population has a release already.*--again"):
        sherd.protect_to(tmp_path / "out", read, SCHEMA, plan, ledger=ledger, population=name)
    assert not (tmp_path / "out").exists()
    assert [entry.kind for entry in ledger.entries()] == ["charge"]
    assert ledger.reservations() == []


def test_what_is_said_otherwise_or_promises_otherwise_is_not_refused(ledger: Ledger) -> None:
    """Again where asked for; other people; nothing promised; an ε that adds up."""
    plan = sherd.Plan(method="slice", l=3)
    sherd.protect(TABLE, SCHEMA, plan, ledger=ledger)
    sherd.protect(TABLE, SCHEMA, plan, ledger=ledger, settings=sherd.Settings(again=True))
    sherd.protect(TABLE, SCHEMA, plan, ledger=ledger, population="others")
    sherd.protect(TABLE, SCHEMA, plan, ledger=ledger, settings=sherd.Settings(seed=1))
    sherd.protect(TABLE, SCHEMA, plan, ledger=None)
    masked = sherd.Plan(method="dp", epsilon=1)
    schema = sherd.Schema.from_data(
        {"attributes": {"age": {"type": "integer", "domain": ["0", "99"]}},
         "population": "people of the clinic"}
    )  # fmt: skip
    sherd.protect(TABLE.select(["age"]), schema, masked, ledger=ledger)
    assert len(ledger.entries()) == 5


@pytest.mark.parametrize("method", ["slice", "anatomy", "mondrian"])
def test_a_release_that_follows_is_not_refused(ledger: Ledger, tmp_path: Path, method: str) -> None:
    """With the owner's record, as often as the table changes."""
    plan = sherd.Plan(method=method, **PLANS[method])
    settings = sherd.Settings(key="who")
    first = sherd.protect_to(
        tmp_path / "1", lambda: TABLE, SCHEMA, plan, ledger=ledger, settings=settings
    )
    record = first.record
    assert record is not None
    for number in (2, 3):
        old = tmp_path / str(number - 1)
        assert record.release == digest(old / MANIFEST)
        after = follow_release(method, old, record, schema=SCHEMA)
        made = sherd.protect_to(
            tmp_path / str(number), lambda: TABLE.slice(5), SCHEMA, after.plan, ledger=ledger,
            settings=sherd.Settings(key="who", past=after.past),
        )  # fmt: skip
        assert sherd.verify(tmp_path / str(number)).passed
        assert made.record is not None
        record = made.record
    with pytest.raises(UsageError, match="this population has a release already"):
        sherd.protect(TABLE, SCHEMA, plan, ledger=ledger, settings=settings)
