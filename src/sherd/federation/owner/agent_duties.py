"""What an owner's agent does beside its rounds: announce its policy, renew its certificate.

The policy is announced when it has changed. A certificate is renewed by a new key, over the channel
that the old one opens. The old certificate stays good until its end, so that nothing breaks where
the answer is lost. What comes back is signed by the aggregator's key, which people compared when
the owner was enrolled.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from sherd.errors import ConnectionFailedError, PeerError, SherdError
from sherd.federation.protocol.announced_policy import AnnouncedPolicy
from sherd.federation.wire import certificates
from sherd.federation.wire.client import tls_context
from sherd.federation.wire.enrolment import parse_answer
from sherd.federation.wire.envelope import read_announcement, sign_announcement
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
        settings = {name: getattr(policy, name) for name in policy.announce}
        if "attributes" in settings:
            settings["attributes"] = tuple(home.source().shared_schema(policy).attributes)
        if "largest_epsilon" in settings:
            from sherd.budget.amount import Amount

            settings["largest_epsilon"] = str(Amount(policy.largest_epsilon))
        return AnnouncedPolicy(
            owner=home.settings.name,
            aggregator=home.enrolled["aggregator"],
            version=max(int(self._clock()), version + 1),
            **settings,
        )


DAY = 24 * 3600


def renew(home: OwnerHome, client: Client) -> int:
    """Get a new certificate and use it from now on; how many days it lasts."""
    key = certificates.new_key()
    answer = parse_answer(client.next_certificate(certificates.request(home.settings.name, key)))
    home.take_certificate(answer, key)
    client.reconnect(tls_context(home.authority, home.channel))
    return certificates.days_left(answer.certificate.encode())


class Renewer:
    """Looks once a day whether the certificate ends soon, and renews it then."""

    def __init__(
        self, home: OwnerHome, client: Client, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._home, self._client, self._clock = home, client, clock
        self._next = 0.0

    def try_renewing(self, say: Callable[[str, str], None]) -> None:
        """Renew a certificate that ends soon; what goes wrong with that stops no round."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + DAY
        try:
            left = certificates.days_left(self._home.channel[0].read_bytes())
        except (OSError, ValueError):
            return  # a line without certificates
        if left >= certificates.RENEW_DAYS:
            return
        try:
            renew(self._home, self._client)
            say("renewed the certificate", f"the old one is good for {left} more days")
        except ConnectionFailedError:
            self._next = 0.0
            raise
        except SherdError as error:
            say(f"could not renew the certificate, which ends in {left} days", error.what)
