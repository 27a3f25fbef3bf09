"""How guarantees were worded before, so that a promise written then can be compared today.

Each pair is a text that a release carries and the text that says the same now. Only these are
taken for one another: a promise in any other words is not the one that its plan leads to.
"""

from __future__ import annotations

from typing import Any

EARLIER: tuple[tuple[str, str], ...] = (
    (
        "to the other parties: who is among the records that all of them have",
        "to the other parties: who is among the records that all of them have, whether every cell "
        "has one holder and, where the plan settles overlaps, which of its own cells count",
    ),
    ("clusters made anew", "clusters recomputed"),
)
"""What a text was, and what it is."""


def in_todays_words(stated: Any) -> Any:
    """A stated guarantee with every earlier text in today's words.

    >>> in_todays_words({"covers": "the centroids, clusters made anew"})
    {'covers': 'the centroids, clusters recomputed'}
    """
    if isinstance(stated, dict):
        return {key: in_todays_words(value) for key, value in stated.items()}
    if isinstance(stated, list):
        return [in_todays_words(value) for value in stated]
    if not isinstance(stated, str):
        return stated
    for before, now in EARLIER:
        if now not in stated:
            stated = stated.replace(before, now)
    return stated
