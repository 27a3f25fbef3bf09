"""Renewing the owner's certificate: by a new key, over the channel that the old one opens.

The old certificate stays good until its end, so that nothing breaks where the answer is lost. What
comes back is signed by the aggregator's key, which people compared when the owner was enrolled.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sherd.errors import ConnectionFailedError, SherdError
from sherd.federation.wire import certificates
from sherd.federation.wire.client import tls_context
from sherd.federation.wire.enrolment import parse_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.wire.client import Client

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
