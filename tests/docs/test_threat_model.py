"""Every attack in the threat model names a test, and the test is there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ROOMS = (
    "federation", "studio", "end_to_end", "unit", "unit/secure/party", "unit/federation/owner",
    "unit/federation/wire",
)  # fmt: skip


def test_every_attack_has_its_test(root: Path) -> None:
    """A row of the table without a test, or with one that is gone, fails here."""
    page = (root / "docs" / "federation" / "threat-model.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "attack" not in line]
    assert len(rows) >= 20
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
        assert len(named) == 1, row
        file, test = named[0]
        folders = [root / "tests" / room / file for room in ROOMS]
        texts = [path.read_text(encoding="utf-8") for path in folders if path.is_file()]
        assert any(f"def {test}(" in text for text in texts), row
