"""Numbers that somebody signs to log in, signed by the aggregator and good until they say.

Nothing is kept for those who ask for one, and nothing is looked up: strangers can neither have the
database written to, nor tell from the time it takes which names are enrolled. That a number was
used is kept until it is no longer good.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sherd.signing_keys import verify

if TYPE_CHECKING:
    from sherd.federation.aggregator.round_work import Aggregator

MOST_NUMBER = 200
"""The most letters of a number."""


def fresh_number(aggregator: Aggregator, what: str, *, seconds: int) -> str:
    """A number for one kind of login, good for so many seconds."""
    expires, number = str(aggregator.now() + seconds), secrets.token_hex(16)
    signature = aggregator.key.sign(_text(what, expires, number))
    return f"{expires}-{number}-{signature}"


def is_fresh(aggregator: Aggregator, what: str, given: str) -> bool:
    """Whether a number is ours, for this kind of login, and still good."""
    expires, _, rest = given.partition("-")
    number, _, signature = rest.partition("-")
    if not expires.isascii() or not expires.isdigit() or len(expires) > 12:
        return False
    good = verify(aggregator.key.public, _text(what, expires, number), signature)
    return good and int(expires) >= aggregator.now()


def _text(what: str, expires: str, number: str) -> bytes:
    return f"sherd-{what}-1\0{expires}\0{number}".encode(errors="replace")
