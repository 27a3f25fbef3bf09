"""Promises about the sensitive values in every group of a release, beyond frequency alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sherd.guarantees.notions import KAnonymity, LDiversity, Notion, number

_NOT_DP = "; it is not differential privacy"


@dataclass(frozen=True, kw_only=True)
class GroupDiversity(Notion):
    """What holds for the sensitive values of every group; None where it is not promised.

    What can be believed of a person is a mixture of groups, and holds the same.

    >>> GroupDiversity(closeness=0.2).words()
    '0.2-closeness (equal distance); it is not differential privacy'
    """

    code: ClassVar[str] = "group-diversity"
    l: int | None = None  # noqa: E741 - the field's own name for it
    k: int | None = None
    share: float | None = None
    size: int | None = None
    entropy: float | None = None
    recursive: tuple[float, int] | None = None
    closeness: float | None = None
    ordered_closeness: float | None = None
    likeness: float | None = None

    @classmethod
    def definition(cls) -> str:
        """What is promised in general."""
        return (
            "conditions on the sensitive values of every group: entropy or recursive diversity, "
            "t-closeness, (α, k)-anonymity, β-likeness" + _NOT_DP
        )

    def words(self) -> str:
        """One sentence that says what is promised."""
        said = [
            notion.words().removesuffix(_NOT_DP)
            for notion in (
                KAnonymity(k=self.k) if self.k is not None else None,
                LDiversity(l=self.l) if self.l is not None and self.l > 1 else None,
            )
            if notion is not None
        ]
        if self.share is not None and self.size is not None:
            said.append(
                f"({number(self.share)}, {self.size})-anonymity: groups of at least {self.size} "
                f"records, no sensitive value above {number(self.share)} of a group"
            )
        elif self.share is not None:
            said.append(f"no sensitive value above {number(self.share)} of a group")
        elif self.size is not None:
            said.append(f"groups of at least {self.size} records")
        if self.entropy is not None:
            said.append(f"entropy {number(self.entropy)}-diversity")
        if self.recursive is not None:
            c, least = self.recursive
            said.append(f"recursive ({number(c)}, {least})-diversity")
        if self.closeness is not None:
            said.append(f"{number(self.closeness)}-closeness (equal distance)")
        if self.ordered_closeness is not None:
            said.append(f"{number(self.ordered_closeness)}-closeness (ordered distance)")
        if self.likeness is not None:
            said.append(f"enhanced {number(self.likeness)}-likeness")
        return "; ".join(said) + _NOT_DP

    def as_data(self) -> dict[str, object]:
        """The notion as plain data."""
        data = super().as_data()
        if self.recursive is not None:
            data["recursive"] = list(self.recursive)
        return data
