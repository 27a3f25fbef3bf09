"""A round that an owner's agent works on, with what is not written down yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sherd.federation.owner.owner_journal import Change, Outgoing
from sherd.federation.wire.envelope import seal

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.protocol.messages import Message
    from sherd.federation.protocol.owner_machine import Owner
    from sherd.federation.protocol.reasons import Reason
    from sherd.signing_keys import SigningKey


@dataclass(kw_only=True)
class Book:
    """A round's machine, what it will send, and lines for the audit log."""

    machine: Owner
    key: SigningKey
    outgoing: list[Outgoing] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self.notes)

    @property
    def change(self) -> Change:
        """What is to be written down."""
        return Change(
            data=self.machine.data, outgoing=tuple(self.outgoing), notes=tuple(self.notes)
        )

    def note(
        self, what: str, message: Message | None = None, files: dict[str, Path] | None = None
    ) -> None:
        """The round has changed: a line for the log, and a message to send if there is one."""
        self.notes.append((what, self.machine.state.value))
        if message is None:
            return
        terms = self.machine.data.terms
        assert terms is not None
        self.outgoing.append(
            Outgoing(
                round=message.round,
                sequence=message.sequence,
                raw=seal(message, self.key, expires=terms.deadline),
                files={name: str(path) for name, path in (files or {}).items()},
            )
        )

    def refuse(self, reason: Reason, detail: str) -> None:
        """Take no further part: the code is sent, the detail stays with the owner."""
        message = self.machine.refuse(reason)
        self.machine.data.details = (detail,)
        self.note(f"refused: {reason.value}", message)
