"""Consortia for the tests of joint releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from consortium import Consortium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def consortium(tmp_path: Path) -> Iterator[Consortium]:
    """An aggregator without owners yet."""
    made = Consortium(tmp_path)
    yield made
    made.close()
