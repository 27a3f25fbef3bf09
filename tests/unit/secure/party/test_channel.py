"""Frames and the channel: who gets in, what is said, and how every kind of bad peer ends."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import ConnectionFailedError, PeerError, SherdError, TableError, UsageError
from sherd.secure.engine.doorway import MOST_STRANGERS
from sherd.secure.engine.link import address_of, make_key
from sherd.secure.party import message_frames
from sherd.secure.party.channel import GREETING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.secure.party.channel import Channel


@given(st.binary(max_size=40))
def test_no_bytes_do_more_than_raise(data: bytes) -> None:
    """A header of any bytes is a known frame of bounded length, or an error of ours."""
    head = data.ljust(message_frames.HEADER, b"\0")[: message_frames.HEADER]
    try:
        kind, length = message_frames.read_header(head)
    except PeerError:
        return
    assert length <= message_frames.MOST[kind]


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_messages_come_back(message: Any) -> None:
    """What is packed is unpacked."""
    content = message_frames.pack(message)
    kind, length = message_frames.read_header(
        message_frames.frame(message_frames.MESSAGE, content)[: message_frames.HEADER]
    )
    assert (kind, length) == (message_frames.MESSAGE, len(content))
    assert message_frames.unpack(content) == message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_message_is_refused(content: bytes) -> None:
    """Cut off, not text, nested without end."""
    with pytest.raises(PeerError, match="cannot be read"):
        message_frames.unpack(content)


@pytest.mark.parametrize("text", ["host", "host:", ":9", "host:x", "host:0", "host:65536"])
def test_addresses_are_host_and_port(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(UsageError, match="address"):
        address_of(text)


@pytest.mark.parametrize("parties", ["ab", "abcde"])
def test_everybody_hears_everybody(meeting: Any, parties: str) -> None:
    """Messages, long blocks both ways at once, and blocks that go round."""
    meeting.invite(parties)
    n, big = len(parties), 3 * message_frames.MOST[message_frames.NUMBERS] + 5

    def act(channel: Channel, place: int) -> Any:
        told = channel.exchange({"place": place})
        assert told == {i: {"place": i} for i in range(n)}
        blocks = channel.exchange_bytes(bytes([place]) * (place + 1), {i: i + 1 for i in range(n)})
        assert blocks == {i: bytes([i]) * (i + 1) for i in range(n)}
        if n == 2:
            channel.exchange_bytes(bytes(big), {1 - place: big})
        return channel.pass_bytes((place + 1) % n, bytes([place]) * 3, (place - 1) % n, 3)[0]

    assert meeting.all(act) == [(place - 1) % n for place in range(n)]


def test_numbers_and_results_pass(meeting: Any) -> None:
    """Shares as they are, of any length; opened results as they are."""
    meeting.invite("ab")
    words = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)

    def act(channel: Channel, place: int) -> Any:
        if place == 0:
            channel.send_numbers(1, words)
            channel.send_numbers(1, words[:0])
            channel.send_opened(1, "places", (3, -4))
            return None
        got = channel.receive_numbers(0, 4)
        assert got.dtype == np.uint64
        assert channel.receive_numbers(0, 0).size == 0
        return got.tolist(), channel.receive_opened(0)

    assert meeting.all(act)[1] == (words.tolist(), ("places", (3, -4)))


def test_a_sender_waits_for_a_busy_party_that_is_alive(meeting: Any) -> None:
    """Longer than the time-out: what counts is being heard, not being quick."""
    meeting.invite("ab")
    many = np.zeros(8 * message_frames.MOST[message_frames.NUMBERS] // 8, np.uint64)

    def act(channel: Channel, place: int) -> Any:
        if place == 0:
            channel.send_numbers(1, many)
            channel.part()
            return "sent"
        time.sleep(2.5)
        size = channel.receive_numbers(0, many.size).size
        channel.part()
        return size

    assert meeting.all(act, timeout=1.5) == ["sent", many.size]


def test_the_reason_of_an_end_is_told_by_its_code_only(meeting: Any) -> None:
    """The others learn the kind of error; its text stays where it is."""
    meeting.invite("abc")

    def act(channel: Channel, place: int) -> Any:
        channel.exchange({})
        if place == 1:
            raise TableError("row 7 holds 8675309")
        return channel.exchange({})

    first, second, third = meeting.all(act)
    assert isinstance(second, TableError)
    for other in (first, third):
        assert isinstance(other, ConnectionFailedError)
        assert str(other).startswith("the party 'b' ended the run; got The data does not fit")
        assert "8675309" not in str(other)


def test_an_unknown_end_is_told_as_such(meeting: Any) -> None:
    """An error that is not one of ours."""
    meeting.invite("ab")

    def act(channel: Channel, place: int) -> Any:
        channel.exchange({})
        if place == 1:
            raise ZeroDivisionError
        return channel.exchange({})

    first, second = meeting.all(act)
    assert isinstance(second, ZeroDivisionError)
    assert "'b' ended the run" in str(first)


def test_a_party_with_another_key_does_not_get_in(meeting: Any) -> None:
    """Neither by dialling nor by being dialled; a third that is as agreed gets in."""
    meeting.invite("abc")
    other = meeting.folder / "other"
    other.mkdir()
    key, certificate = make_key(other, "b")
    honest = meeting.channel

    def channel(place: int, timeout: float) -> Channel:
        if place != 1:
            return honest(place, timeout)
        from dataclasses import replace

        from sherd.secure.party.channel import Channel as Made

        peers = [replace(p, certificate=certificate) if p.name == "b" else p for p in meeting.peers]
        return Made(peers, 1, key, timeout=timeout)

    meeting.channel = channel
    found = meeting.all(lambda channel, _place: channel.exchange({}), timeout=2)
    assert all(isinstance(one, ConnectionFailedError) for one in found)
    assert "holding the agreed keys: b;" in str(found[0])
    assert "holding the agreed keys: b;" in str(found[2])


def test_parties_need_not_all_come_where_some_suffice(meeting: Any) -> None:
    """Who came is told."""
    meeting.invite("ab")
    with meeting.channel(0, timeout=0.5) as channel:
        assert channel.connect(all_needed=False) == []
        assert channel.exchange({"x": 1}) == {0: {"x": 1}}
    with (
        meeting.channel(0, timeout=0.5) as channel,
        pytest.raises(ConnectionFailedError, match="could not be reached"),
    ):
        channel.connect()


def test_unusable_keys_and_addresses_are_refused(meeting: Any) -> None:
    """Not there, not keys, not this machine's."""
    meeting.invite("ab")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(meeting.peers[0].address.split(":")[1])))
        taken.listen()
        with (
            meeting.channel(0, 1) as channel,
            pytest.raises(ConnectionFailedError, match="cannot listen"),
        ):
            channel.connect()
    (meeting.folder / "b.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="cannot be used"):
        meeting.channel(0)
    (meeting.folder / "b.pem").unlink()
    with pytest.raises(UsageError, match="is missing"):
        meeting.channel(0)


class Rogue:
    """Party b, with its right key, that says what it likes."""

    def __init__(self, meeting: Any) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_cert_chain(meeting.folder / "b.pem", meeting.folder / "b.key")
        context.load_verify_locations(meeting.folder / "a.pem")
        address = address_of(meeting.peers[0].address)
        for _ in range(100):
            try:
                self.socket = context.wrap_socket(socket.create_connection(address, 5))
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("nobody listens")

    def greet(self) -> None:
        """Speak as parties do, so far."""
        self.socket.sendall(
            message_frames.frame(message_frames.MESSAGE, json.dumps(GREETING).encode())
        )

    def say(self, data: bytes) -> None:
        """Any bytes; the other side may have had enough of them."""
        try:
            self.socket.sendall(data)
        except OSError:
            return


def faced(meeting: Any, behave: Callable[[Rogue], None], timeout: float = 1.0) -> SherdError:
    """What party a makes of a rogue b, and in the time-out or little more."""

    def act() -> None:
        rogue = Rogue(meeting)
        try:
            behave(rogue)
        finally:
            rogue.socket.close()

    thread = threading.Thread(target=act)
    begin = time.monotonic()

    def listen() -> None:
        with meeting.channel(0, timeout) as channel:
            thread.start()
            channel.connect()
            channel.exchange({"hello": 1})
            channel.receive_numbers(1, 4)

    with pytest.raises(SherdError) as caught:
        listen()
    assert time.monotonic() - begin < timeout + 3
    thread.join(10)
    return caught.value


NUMBERS = message_frames.frame(message_frames.NUMBERS, bytes(32))
HELLO = message_frames.frame(message_frames.MESSAGE, b"{}")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"GET / HTTP/1.1\r\n\r\n" * 3, "a frame of a known kind"),
        (b"shrdz" + bytes(8), "a frame of a known kind"),
        (b"shrdm" + b"\xff" * 8, "at most 67108864 bytes"),
        (message_frames.frame(message_frames.MESSAGE, b"{")[:-1] + b"\xfe", "a message in JSON"),
        (NUMBERS, "a message where a message is due"),
        (HELLO + HELLO, "numbers where they are"),
        (HELLO + message_frames.frame(message_frames.NUMBERS, bytes(40)), "as many numbers"),
        (HELLO + b"shrdn" + (2**23 + 1).to_bytes(8, "big"), "at most 8388608 bytes"),
        (HELLO + b"shrda" + (1).to_bytes(8, "big") + b"x", "at most 0 bytes"),
        (HELLO + message_frames.frame(message_frames.NUMBERS, b""), "as many numbers"),
        (HELLO + message_frames.frame(message_frames.NUMBERS, bytes(8)), "as many numbers"),
        (HELLO + NUMBERS[:-5], "closed the connection"),
        (HELLO, "closed the connection"),
        (HELLO + message_frames.frame(message_frames.STOP, b"no-such-code"), "no known reason"),
    ],
    ids=["http", "kind", "oversize", "garbage", "numbers-first", "message-twice", "too-many",
         "oversize-numbers", "long-alive", "nothing", "drop-by-drop", "truncated", "left", "stop"],
)  # fmt: skip
def test_malformed_frames_end_in_a_clear_message(meeting: Any, said: bytes, problem: str) -> None:
    """Whatever a party with the right key sends, the other says what is wrong and ends."""
    meeting.invite("ab")

    def behave(rogue: Rogue) -> None:
        rogue.greet()
        rogue.say(said)
        time.sleep(0.3)

    found = faced(meeting, behave)
    assert problem in str(found)
    assert found.exit_code == 5


@pytest.mark.parametrize(
    "said",
    [b"\0" * 20, HELLO, message_frames.frame(message_frames.NUMBERS, b""), b"shrdm" + b"\xff" * 8],
)
def test_a_party_that_does_not_greet_is_refused(meeting: Any, said: bytes) -> None:
    """Its first bytes are something else."""
    meeting.invite("ab")

    def behave(rogue: Rogue) -> None:
        rogue.say(said)
        time.sleep(0.3)

    assert "cannot be read" in str(faced(meeting, behave))


def test_strangers_keep_nobody_out(meeting: Any) -> None:
    """Callers that connect and say nothing, or anything but TLS, are put out by those who come."""
    meeting.invite("ab")
    address = address_of(meeting.peers[0].address)
    held: list[socket.socket] = []

    with meeting.channel(0, 20.0) as first:
        joined = threading.Thread(target=first.connect)
        joined.start()
        while not held:
            try:
                held.append(socket.create_connection(address, 5))
            except OSError:
                time.sleep(0.02)
        for number in range(3 * MOST_STRANGERS):
            held.append(socket.create_connection(address, 5))
            if number % 2:
                held[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")
        with meeting.channel(1, 20.0) as second:
            second.connect()
            joined.join(20)
            assert not joined.is_alive()
            ended = 0
            for one in held:
                one.settimeout(0.01)
                try:
                    one.recv(4096)
                except TimeoutError:
                    continue
                except OSError:
                    pass
                ended += 1
            assert ended >= len(held) - MOST_STRANGERS
    for one in held:
        one.close()


def test_small_bytes_of_many_values_are_not_unfolded() -> None:
    """A message of a few megabytes that would take gigabytes in memory is refused unread."""
    nothing = b"[" + b"[]," * message_frames.MOST_VALUES + b"[]]"
    assert len(nothing) < message_frames.MOST[message_frames.MESSAGE]
    with pytest.raises(PeerError, match="values in a message"):
        message_frames.unpack(nothing)


def test_a_stalled_party_is_given_up(meeting: Any) -> None:
    """Connected, and then nothing, not even that it is alive."""
    meeting.invite("ab")

    def behave(rogue: Rogue) -> None:
        rogue.greet()
        rogue.say(HELLO)
        time.sleep(3)

    assert "'b' went silent; got nothing for 1 s" in str(faced(meeting, behave))


@pytest.mark.parametrize("sending", [False, True])
def test_a_party_that_is_alive_but_stuck_is_given_up(meeting: Any, sending: bool) -> None:
    """It says that it is alive, for ever, and nothing that is due; or takes nothing."""
    meeting.invite("ab")

    def behave(rogue: Rogue) -> None:
        rogue.greet()
        for _ in range(20):
            rogue.say(message_frames.frame(message_frames.ALIVE, b""))
            time.sleep(0.2)
        rogue.socket.close()

    thread = threading.Thread(target=lambda: behave(Rogue(meeting)))

    def listen() -> None:
        with meeting.channel(0, 1.0, longest_wait=2.0) as channel:
            thread.start()
            channel.connect()
            if sending:
                channel.send_numbers(1, np.zeros(4_000_000, np.uint64))
            channel.receive_numbers(1, 4)

    begin = time.monotonic()
    with pytest.raises(ConnectionFailedError, match="'b' is alive but makes no progress"):
        listen()
    assert time.monotonic() - begin < 5
    thread.join(10)


def test_opened_results_of_a_wrong_type_are_refused(meeting: Any) -> None:
    """No list, other things in it, numbers that are none."""
    meeting.invite("ab")

    def act(channel: Channel, place: int) -> Any:
        bad = [{"a": 1}, ["places"], [3, [1]], ["places", [1.5]], ["places", "12"], 7]
        if place == 0:
            for one in bad:
                channel._call(
                    channel._connections[1].send(message_frames.MESSAGE, json.dumps(one).encode())
                )
            return None
        for _ in bad:
            with pytest.raises(PeerError, match="an opened result"):
                channel.receive_opened(0)
        return "all refused"

    assert meeting.all(act)[1] == "all refused"
