"""Re-checking the ciphertext of withheld attributes, without the key, from the files alone.

What can be seen: that there is a row for every tuple that all fragments hold and a column for
every withheld attribute and one for the links; that every cell of a column is as long as the plan
says and written in one way; and that no two cells are alike, as they would be if one key and
nonce sealed equal cells. What the cells say, and that their order tells nothing, cannot be seen.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from sherd.verifying.check import Check
from sherd.verifying.row_groups import alike
from sherd.verifying.stored_table import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from sherd.verifying.stored_table import StoredTable

TABLE = "ciphertext"
_AUTHENTICATION, _ROW_NUMBER, _TUPLE_HASH = 16, 8, 16


def is_sealed(plan: Mapping[str, Any]) -> bool:
    """Whether a plan releases withheld attributes as ciphertext."""
    return bool(plan.get("withheld") == "ciphertext")


def sealed_checks(
    tables: Mapping[str, pa.Table] | Mapping[str, pa.Table | StoredTable],
    manifest: Mapping[str, Any],
    fragments: int,
) -> list[Check]:
    """The checks of a release's ciphertext; that there is none, where the plan asks for none."""
    plan, table = manifest["plan"], tables.get(TABLE)
    if not is_sealed(plan):
        return [] if table is None else [_check("ciphertext", "the plan asks for none")]
    if table is None:
        return [_check("ciphertext", "the table is missing")]
    withheld = manifest["facts"]["withheld"]
    long = int(plan["cell_bytes"]) + _AUTHENTICATION
    lengths = {f"sealed_{at}": long for at in range(1, len(withheld) + 1)}
    lengths = {"sealed_0": fragments * _ROW_NUMBER + _TUPLE_HASH + _AUTHENTICATION, **lengths}
    columns = list(lengths) == table.column_names
    odd = [] if not columns else [n for n, long in lengths.items() if not _even(table, n, long)]
    whole = [
        sum(piece.drop_null().num_rows for piece in pieces(t, *t.column_names))
        for name, t in tables.items()
        if name.startswith("association")
    ]
    rows = min(whole, default=0)
    return [
        _check("ciphertext: columns", "" if columns else "others than the links and attributes"),
        _check("ciphertext: equal lengths", "; ".join(odd) and f"not in {'; '.join(odd)}"),
        _check(
            "ciphertext: a row for every whole tuple",
            # several associations may each lack other tuples
            ""
            if table.num_rows == rows or (len(whole) > 1 and table.num_rows < rows)
            else f"{table.num_rows}, but there are {rows}",
        ),
        _check("ciphertext: no two cells alike", "some are" if alike(table) else ""),
        Check.unmade(
            "ciphertext: order and content",
            "what cells say, and that their order tells nothing, needs the owner's key",
        ),
    ]


def _check(name: str, wrong: str) -> Check:
    return Check(name=name, passed=not wrong, detail=wrong or "as it must be")


def _even(table: pa.Table | StoredTable, name: str, long: int) -> bool:
    """Whether every cell is base64 of so many bytes, written in the one usual way."""
    for cell in (c for piece in pieces(table, name) for c in piece.column(name).to_pylist()):
        try:
            data = base64.b64decode(cell or "", validate=True)
        except (binascii.Error, ValueError):
            return False
        if len(data) != long or base64.b64encode(data).decode() != cell:
            return False
    return True


def sealed_facts(manifest: Mapping[str, Any]) -> dict[str, Callable[[Any], bool]]:
    """What a manifest must state of the ciphertext."""
    plan, withheld = manifest["plan"], manifest["facts"].get("withheld")
    if not is_sealed(plan):
        return {}

    def right(given: Any) -> bool:
        return (
            set(given) == {"attributes", "cell_bytes", "salt", "key_check"}
            and given["attributes"] == withheld
            and given["cell_bytes"] == plan["cell_bytes"]
            and len(bytes.fromhex(given["salt"])) == 32
            and len(bytes.fromhex(given["key_check"])) == 16
        )

    return {TABLE: right}
