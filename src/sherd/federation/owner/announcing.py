"""The owner's side of announced policies: what to tell, and telling it when it has changed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from sherd.errors import ConnectionFailedError, PeerError, SherdError
from sherd.federation.protocol.announced_policy import AnnouncedPolicy
from sherd.federation.wire.policy_announcement import read_announcement, sign_announcement
from sherd.tables.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.wire.client import Client

ANNOUNCED = "announced-policy.json"
"""The file in the owner's folder that holds the last announcement, as it was signed."""


class Announcer:
    """Tells the aggregator what the policy's ``announce`` names, once for every change."""

    def __init__(
        self, home: OwnerHome, client: Client, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._home = home
        self._client = client
        self._clock = clock
        self._path = home.folder / ANNOUNCED
        self._sent: bytes | None = None

    def try_announcing(self, say: Callable[[str, str], None]) -> None:
        """Announce what has changed; what cannot be announced stops no round."""
        try:
            self.announce()
        except ConnectionFailedError:
            raise
        except SherdError as error:
            say("could not announce the policy", error.what)

    def announce(self) -> None:
        """Send the announcement where the aggregator may not have it.

        An owner that never announced anything sends nothing.
        """
        home, last = self._home, self._last()
        if last is None and not home.policy.announce:
            return
        wanted = self._wanted(0 if last is None else last.version)
        if last is not None and replace(wanted, version=last.version) == last:
            wanted = last
        raw = sign_announcement(wanted, home.key)
        if raw == self._sent:
            return
        try:
            self._send(raw)
        except PeerError:
            # A home restored from a backup does not know what it announced last: say it again.
            again = self._wanted(wanted.version)
            raw = sign_announcement(again, home.key)
            self._send(raw)
        self._sent = raw

    def _send(self, raw: bytes) -> None:
        write_whole(self._path, raw, mode=0o600)
        self._client.announce(raw)

    def _last(self) -> AnnouncedPolicy | None:
        """What was announced last; None where nothing was, or by another key."""
        try:
            return read_announcement(
                self._path.read_bytes(),
                owner=self._home.settings.name,
                key=self._home.key.public,
                aggregator=self._home.enrolled["aggregator"],
            )
        except (OSError, PeerError):
            return None

    def _wanted(self, version: int) -> AnnouncedPolicy:
        """What the policy tells now."""
        home, policy = self._home, self._home.policy
        told = {name: getattr(policy, name) for name in policy.announce}
        if "attributes" in told:
            told["attributes"] = tuple(home.source().shared_schema(policy).attributes)
        if "largest_epsilon" in told:
            from sherd.budget.amount import Amount

            told["largest_epsilon"] = str(Amount(policy.largest_epsilon))
        return AnnouncedPolicy(
            owner=home.settings.name,
            aggregator=home.enrolled["aggregator"],
            version=max(int(self._clock()), version + 1),
            **told,
        )
