"""What each party, alone or with another, learns beyond the release itself.

The table goes into every joint manifest and, as it is, into the documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.summing import sums_rows

if TYPE_CHECKING:
    from sherd.federation.protocol.joint_plan import Terms


def collusion_table(terms: Terms) -> dict[str, list[str]]:
    """Who learns what beyond the release, for a round of these terms."""
    if sums_rows(terms):
        return _of_sums(terms)
    vertical, linked = terms.kind.joins, terms.linkage is not Linkage.NONE
    shared_key = terms.linkage is Linkage.HMAC
    analyst = ["nothing: the release and its manifest are all an analyst sees"]
    owner = ["the other owners' attribute metadata and numbers of rows, which the plan names"]
    aggregator = [
        "every owner's masked table as it was delivered, so which masked row is whose"
        if not vertical
        else "every owner's masked columns as they were delivered",
        "every owner's number of rows and the time at which it approved and delivered",
    ]
    both = ["what each of them learns alone"]
    two = ["what each of them learns alone"]
    if vertical:
        owner += [
            "which of its own people every other owner has, too (not covered by epsilon)",
            "its own masked columns in the release in spite of the shuffle, and with them which "
            "released row belongs to which of its own people",
        ]
        both.append(
            "which released row, with every owner's masked values, belongs to which of that "
            "owner's people"
        )
        two.append("which people both of them have")
        if terms.kind is Kind.BLOCKS:
            _of_blocks(owner, aggregator)
    else:
        owner.append("its own masked rows in the release in spite of the shuffle")
        both.append("which released rows are that owner's, and so which are the others'")
        two.append("with all owners but one: which released rows are the last one's")
    if linked:
        aggregator.append(
            "how many people every two owners have in common, by pseudonyms that change with "
            "every plan"
        )
        if not vertical:
            owner.append("whether anybody is known to two owners, not who")
    if shared_key:
        owner.append("the key of the pseudonyms: with any list of pseudonyms it can test guesses")
        both.append(
            "whether any guessed identifier is among another owner's people (low assurance: one "
            "key is shared by all owners)"
        )
    elif linked:
        both.append(
            "whether guessed identifiers are among another owner's people, as many guesses as the "
            "owner put into its own batch"
        )
    return {
        "analyst": analyst,
        "one owner": owner,
        "the aggregator": aggregator,
        "one owner with the aggregator": both,
        "two owners": two,
    }


def _of_blocks(owner: list[str], aggregator: list[str]) -> None:
    """What is different where owners of the same attributes have different people."""
    owner[1] = (
        "which of its own people are at an owner of every other attribute, too (not covered by "
        "epsilon), not at which one"
    )
    owner.append("whether many people are at two owners of the same attributes, not who")
    aggregator.append("which released row is of which owners")


def _of_sums(terms: Terms) -> dict[str, list[str]]:
    """The same for a round of sums: nobody sees an owner's numbers without its masks."""
    named = len(terms.owners) - 1 if terms.colluders is None else terms.colluders
    owner = ["the other owners' attribute metadata and numbers of rows, which the plan names"]
    aggregator = [
        "of every owner's counts nothing: they come under masks of which only the sum is free",
        "every owner's number of rows and the time at which it approved and answered",
    ]
    together = [
        "the sum of the others' noisy counts: the release less their own",
        f"no more than epsilon allows, as long as at most {named} of the owners are among them",
    ]
    if terms.linked:
        aggregator.append(
            "how many people every two owners have in common, by pseudonyms that change with "
            "every plan"
        )
        owner.append("whether anybody is known to two owners, not who")
        together.append(
            "whether guessed identifiers are among another owner's people"
            + ("" if terms.linkage is Linkage.HMAC else ", as many guesses as they put into theirs")
        )
    return {
        "analyst": ["nothing: the release, its model and its manifest are all an analyst sees"],
        "one owner": owner,
        "the aggregator": aggregator,
        "one owner with the aggregator": together,
        "two owners": together,
    }
