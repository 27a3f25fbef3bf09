"""Whom a guarantee protects, against whom, and what it assumes.

Every member carries the sentence that is printed for it, so that the words of a
manifest, of ``sherd methods`` and of the documentation cannot drift apart.
"""

from __future__ import annotations

from enum import Enum


class _Said(Enum):
    """An enumeration whose members carry the sentence printed for them."""

    words: str
    leaks: bool

    def __new__(cls, value: str, words: str, leaks: bool = False) -> _Said:
        member = object.__new__(cls)
        member._value_ = value
        member.words = words
        member.leaks = leaks
        return member


class Unit(_Said):
    """Whose data a guarantee covers."""

    RECORD = ("record", "one record (one row of the table)")
    PERSON = ("person", "one person, with all the rows that belong to them")
    ASSOCIATION = ("association", "the link between the parts of one record")


class Adversary(_Said):
    """What the other side is assumed to see and know."""

    SEES_RELEASE = (
        "sees-release",
        "somebody who sees the whole release, knows the method and its parameters, and may "
        "know every other record",
    )
    KNOWS_QUASI_IDENTIFIERS = (
        "knows-quasi-identifiers",
        "somebody who sees the release and knows the quasi-identifiers of a person in it, "
        "but no other sensitive values",
    )
    SEES_FRAGMENTS = (
        "sees-fragments",
        "somebody who sees every fragment and the association, and knows the attributes of one "
        "fragment of a person in it",
    )


class Assumption(_Said):
    """What a guarantee assumes.

    Most are conditions: they must be true, and the method does not enforce them. Those that
    ``leak`` are facts about the data that the release shows and the notion leaves aside, as
    if they were public already.
    """

    PUBLIC_BOUNDS = (
        "public-bounds",
        "the bounds declared in the schema were chosen without looking at the data",
    )
    BOUNDS_FROM_DATA = (
        "bounds-from-data",
        "the bounds were computed from the data itself; they reveal the largest and smallest "
        "values, and no epsilon covers that",
        True,
    )
    PUBLIC_CATEGORIES = (
        "public-categories",
        "the categories and their order declared in the schema were chosen without looking at "
        "the data",
    )
    ORDER_FROM_DATA = (
        "order-from-data",
        "the categories or their order were computed from the data (which occur, how often); no "
        "epsilon covers that",
        True,
    )
    PUBLIC_SIZE = (
        "public-size",
        "the number of records is public; a neighbouring table has one record substituted, "
        "none added or removed",
    )
    FIXED_CLUSTERING = (
        "fixed-clustering",
        "which records share a cluster is taken as fixed and public; in truth clusters are made "
        "from the data, and one changed record moves the boundaries of many, which costs more "
        "than the stated epsilon",
        True,
    )
    ROW_STRUCTURE_RELEASED = (
        "row-structure-released",
        "the released rows show exactly which records share a cluster in each attribute; no "
        "epsilon covers that",
        True,
    )
    FROZEN_SCALE = (
        "frozen-scale",
        "the amount of noise depends on the actual data and is taken as fixed when comparing "
        "with a neighbouring table; the amount itself leaks, and no epsilon covers that",
        True,
    )
    MISSINGNESS_PUBLIC = (
        "missingness-public",
        "which cells are missing is released as it is and not covered by epsilon",
        True,
    )
    RECORDS_DROPPED = (
        "records-dropped",
        "records were left out because of their own values (missing or outside the domain); "
        "that they were is not covered",
        True,
    )
    RECORDS_SUPPRESSED = (
        "records-suppressed",
        "records were left out because the sensitive values they share are too frequent; that "
        "such records were there is not covered",
        True,
    )
    REFUSALS_SEEN = (
        "refusals-seen",
        "whether a run is refused: one cell that does not fit the schema can end it, with a "
        "message that names its attribute; the ledger books such a look, and no epsilon covers it",
        True,
    )
    ONE_ROW_PER_PERSON = (
        "one-row-per-person",
        "every person has one row; a person with several rows is protected by the sum of what "
        "each row costs",
    )
    PARAMETERS_PUBLIC = (
        "parameters-public",
        "the parameters were chosen without looking at the data",
    )
    INSENSITIVE_RELEASED = (
        "insensitive-released",
        "the attributes declared insensitive or as weights are released as they are and are not "
        "protected",
        True,
    )
    SEEDED = (
        "seeded",
        "the random numbers came from a known seed and can be reproduced by anybody who has it: "
        "the release carries no guarantee",
        True,
    )
    NO_CORRELATED_KNOWLEDGE = (
        "no-correlated-knowledge",
        "the adversary has no knowledge of how attributes depend on each other beyond what the "
        "release shows",
    )
    NO_OTHER_RELEASE = (
        "no-other-release",
        "no other release of the same people is combined with this one",
    )
    ONLY_EARLIER_RELEASES = (
        "only-earlier-releases",
        "no other release of the same people is combined with this one than those it follows, "
        "each of which was made from the private record of the one before",
    )
    DELETIONS_UNKNOWN = (
        "deletions-unknown",
        "nobody who holds this release and an earlier one knows who was deleted in between; to "
        "somebody who does, the parts of a deleted record are hidden within their groups only",
    )
    NO_OTHER_SENSITIVE_VALUES = (
        "no-other-sensitive-values",
        "the adversary knows no sensitive value of anybody in the release, neither the person's "
        "own nor a neighbour's; every one known can be ruled out for the others in its bucket",
    )
    CELL_KEY_SECRET = (
        "cell-key-secret",
        "nobody but the owner has the key of the ciphertext; to whoever has it, the release is the "
        "table itself",
    )
    CONSTRAINTS_COMPLETE = (
        "constraints-complete",
        "the constraints name every combination of attributes that is sensitive, and the "
        "dependencies every attribute that can be told from others",
    )
