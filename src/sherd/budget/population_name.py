r"""Names of populations: one account for one name, however it is typed.

>>> same("Patients  2024", "patients 2024"), same("patients", "ｐａｔｉｅｎｔｓ")
(True, True)
>>> near_miss("patents", ["patients", "staff"])
'patients'
>>> near_miss("survey 2023", ["survey 2024"]) is None
True
>>> near_miss("\N{CYRILLIC CAPITAL LETTER A}dult", ["Adult"])  # looks the same
'Adult'
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SHORT = 5
"""Names of fewer letters are too short to be taken for one another."""


_ALIKE = str.maketrans(
    "\N{CYRILLIC SMALL LETTER A}\N{CYRILLIC SMALL LETTER VE}\N{CYRILLIC SMALL LETTER IE}"
    "\N{CYRILLIC SMALL LETTER KA}\N{CYRILLIC SMALL LETTER EM}\N{CYRILLIC SMALL LETTER EN}"
    "\N{CYRILLIC SMALL LETTER O}\N{CYRILLIC SMALL LETTER ER}\N{CYRILLIC SMALL LETTER ES}"
    "\N{CYRILLIC SMALL LETTER TE}\N{CYRILLIC SMALL LETTER U}\N{CYRILLIC SMALL LETTER HA}"
    "\N{CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I}\N{CYRILLIC SMALL LETTER JE}"
    "\N{CYRILLIC SMALL LETTER DZE}\N{CYRILLIC SMALL LETTER SHHA}"
    "\N{GREEK SMALL LETTER ALPHA}\N{GREEK SMALL LETTER BETA}\N{GREEK SMALL LETTER EPSILON}"
    "\N{GREEK SMALL LETTER ZETA}\N{GREEK SMALL LETTER ETA}\N{GREEK SMALL LETTER IOTA}"
    "\N{GREEK SMALL LETTER KAPPA}\N{GREEK SMALL LETTER MU}\N{GREEK SMALL LETTER NU}"
    "\N{GREEK SMALL LETTER OMICRON}\N{GREEK SMALL LETTER RHO}\N{GREEK SMALL LETTER TAU}"
    "\N{GREEK SMALL LETTER UPSILON}\N{GREEK SMALL LETTER CHI}\N{LATIN SMALL LETTER DOTLESS I}",
    "abekmhopctyxijshabezhikmnoptyxi",
)
"""Letters of other scripts that look like Latin ones, as small or as capital letters."""


def key(name: str) -> str:
    """The form of a name that tells accounts apart: width, case and spaces do not matter."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def same(one: str, other: str) -> bool:
    """Whether two names are one account."""
    return key(one) == key(other)


def near_miss(name: str, known: Iterable[str]) -> str | None:
    """A known name that this one may be a misspelling of, None where there is none.

    Numbers and single letters tell populations apart on purpose and are never a slip.
    """
    mine = key(name)
    for other in known:
        theirs = key(other)
        if mine == theirs or "unnamed-" in (mine[:8], theirs[:8]):
            continue
        if _letters(mine) == _letters(theirs) or _one_slip(mine, theirs):
            return other
    return None


def _letters(name: str) -> str:
    """The letters and digits as they look, without accents and signs."""
    plain = unicodedata.normalize("NFKD", name).translate(_ALIKE)
    return "".join(sign for sign in plain if sign.isalnum())


def _one_slip(one: str, other: str) -> bool:
    """Whether one letter was left out, added, changed or swapped with its neighbour."""
    words, others = re.split(r"[\W_]+", one), re.split(r"[\W_]+", other)
    if len(words) != len(others):
        return False
    differ = [(a, b) for a, b in zip(words, others, strict=True) if a != b]
    if len(differ) != 1:
        return False
    a, b = differ[0]
    if min(len(a), len(b)) < SHORT or any(sign.isdigit() for sign in a + b):
        return False
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    rest, others_rest = a[start:], b[start:]
    return (
        rest[1:] == others_rest[1:]
        or rest[1:] == others_rest
        or rest == others_rest[1:]
        or (rest[1::-1] == others_rest[:2] and rest[2:] == others_rest[2:])
    )
