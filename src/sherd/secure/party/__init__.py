"""One party of a joint release: its settings, its fragment, and the run from start to end."""

from __future__ import annotations

from sherd.secure.party.party_run import run as take_part
from sherd.secure.party.party_settings import PartySettings, RecordLinkage, init

__all__ = ["PartySettings", "RecordLinkage", "init", "take_part"]
