"""A proxy between real processes that loses, doubles and delays their HTTP calls."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import threading
from collections import deque
from enum import StrEnum

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Fault(StrEnum):
    """What happens to every call, the first time it is made."""

    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    TWICE = "twice"
    LATE_COPY = "late copy"


class _Line:
    """One end of a connection, read a whole HTTP message at a time."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._read = b""

    def message(self) -> bytes | None:
        """The next message; None at the end."""
        while b"\r\n\r\n" not in self._read:
            if not self._more():
                return None
        head = self._read.index(b"\r\n\r\n") + 4
        found = LENGTH.search(self._read[:head])
        size = head + (int(found[1]) if found else 0)
        while len(self._read) < size:
            if not self._more():
                return None
        message, self._read = self._read[:size], self._read[size:]
        return message

    def _more(self) -> bool:
        data = self.end.recv(1 << 16)
        self._read += data
        return bool(data)


class LossyProxy:
    """Passes calls on to a port of this machine; each meets the fault once."""

    def __init__(self, target: int, fault: Fault) -> None:
        self._target, self._fault = target, fault
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._known: set[str] = set()
        self._copies: deque[bytes] = deque()
        self._lock = threading.Lock()
        self.faults = 0
        self.paths: set[str] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        target = ("127.0.0.1", self._target)
        with contextlib.suppress(OSError), near, socket.create_connection(target) as far:
            caller, service = _Line(near), _Line(far)
            while (request := caller.message()) is not None:
                answer = self._call(request, service)
                if answer is None:
                    return
                near.sendall(answer)

    def _call(self, request: bytes, service: _Line) -> bytes | None:
        """The answer to a request; None where the connection is to break."""
        first = self._is_new(request)
        if first and self._fault is Fault.REQUEST_LOST:
            return None
        service.end.sendall(request)
        answer = service.message()
        if first and self._fault is Fault.ANSWER_LOST:
            return None
        # A challenge is good once: what comes after its first use is refused, as it must be.
        if b"/v1/session" in request.partition(b"\r\n")[0]:
            return answer
        if first and self._fault is Fault.TWICE:
            service.end.sendall(request)
            answer = service.message()
        if first and self._fault is Fault.LATE_COPY:
            self._send_late(request)
        return answer

    def _is_new(self, request: bytes) -> bool:
        line = request.partition(b"\r\n")[0]
        path = line.split(b" ")[1].decode()
        body = b"" if b"/v1/session" in line else request.partition(b"\r\n\r\n")[2]
        mark = hashlib.sha256(line + body).hexdigest()
        with self._lock:
            new = mark not in self._known
            self._known.add(mark)
            self.faults += new
            self.paths.add(re.sub(r"r\d+|[0-9a-f]{64}|[^/]+\.\w+$", "*", path))
        return new

    def _send_late(self, request: bytes) -> None:
        """Send a copy after newer calls have gone through; nobody reads its answer."""
        with self._lock:
            self._copies.append(request)
            if len(self._copies) <= 4:
                return
            old = self._copies.popleft()
        with socket.create_connection(("127.0.0.1", self._target)) as far:
            far.settimeout(0.5)
            far.sendall(old)
            with contextlib.suppress(OSError):
                _Line(far).message()
