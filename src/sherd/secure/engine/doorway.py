"""Where callers come in at a computing party's port: each shows a certificate, or is put out.

A caller that only holds connections keeps nobody out, and no byte of a caller is read before TLS
has shown whose key it holds. ``LoopThread`` is the event loop that doors and connections live in.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

BROKEN = (OSError, EOFError)
"""What a lost connection looks like from inside."""

MOST_STRANGERS = 64
"""The most connections of callers that have not shown who they are; more put the oldest out."""

HANDSHAKE_SECONDS = 15.0
"""How long a caller may take to show its certificate."""


class Doorway:
    """Admits callers by TLS; to be used in the event loop that accepts them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._strangers: list[asyncio.WriteTransport] = []

    async def admit(self, writer: asyncio.StreamWriter) -> bytes | None:
        """The certificate that a caller shows; None where it shows none that is trusted."""
        plain = writer.transport
        self._strangers.append(plain)
        if len(self._strangers) > MOST_STRANGERS:
            self._strangers.pop(0).abort()
        try:
            await writer.start_tls(self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS)
        except BROKEN:
            return None
        except AttributeError:
            # Put out meanwhile: asyncio has no transport then, and stumbles over it again when
            # the writer goes.
            writer._transport = plain  # type: ignore[attr-defined]  # noqa: SLF001
            return None
        finally:
            if plain in self._strangers:
                self._strangers.remove(plain)
        return shown_certificate(writer)

    def close(self) -> None:
        """Put out all callers that have not shown who they are."""
        for plain in self._strangers:
            plain.abort()


def shown_certificate(writer: asyncio.StreamWriter) -> bytes | None:
    """The certificate that the other side of a TLS connection showed."""
    shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return shown


class LoopThread:
    """An event loop in a thread of its own, so that a party that computes still answers."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # What goes wrong in a handshake of somebody unknown is nobody's business.
        self.loop.set_exception_handler(lambda _loop, _context: None)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Have something done in the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self, last: Coroutine[Any, Any, Any]) -> None:
        """Do a last thing, for at most five seconds, end everything that still runs, and stop."""
        try:
            asyncio.run_coroutine_threadsafe(self._end(last), self.loop)
        except RuntimeError:
            last.close()  # it has stopped already
            return
        if threading.current_thread() is not self._thread:  # which may collect garbage, and us
            self._thread.join(6)

    async def _end(self, last: Coroutine[Any, Any, Any]) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(last, 5)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.loop.stop()
