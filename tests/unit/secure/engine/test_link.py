"""Shares as bytes."""

from __future__ import annotations

import pytest

from sherd.errors import ConnectionFailedError
from sherd.secure.engine.link import framed, unframed


@pytest.mark.parametrize("frame", [b"", b"\x00" * 7, b"\x00" * 7 + b"\x09abc", b"\x00" * 8])
def test_malformed_shares_are_refused(frame: bytes) -> None:
    """Frames cut short, lengths that lie."""
    assert unframed(framed([b"meta", b"", b"chunk"])) == [b"meta", b"", b"chunk"]
    with pytest.raises(ConnectionFailedError, match="cannot be read"):
        unframed(frame)
