"""HTTP/1.1 by hand: requests read from a socket, answers written byte by byte, so that they can also be wrong."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True)
class Request:
    """One HTTP request.

    Attributes:
        target: path and query as sent.
        headers: names in lower case; the last one wins.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


class Connection:
    """One accepted connection. Writes are whole and may come from any thread."""

    def __init__(self, peer: socket.socket) -> None:
        self._socket = peer
        self._file = peer.makefile("rb")
        self._lock = threading.Lock()
        self.open = True

    def read(self) -> Request | None:
        """The next request, or `None` when the peer has gone or says something else."""
        line = self._file.readline(1 << 16).split()
        if len(line) != 3:
            return None
        headers: dict[str, str] = {}
        while (field := self._file.readline(1 << 16).strip()) != b"":
            name, _, value = field.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return Request(line[0].decode("latin-1"), line[1].decode("latin-1"), headers, self._body(headers))

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self._file.read(int(headers.get("content-length", 0)))
        body = b""
        while size := int(self._file.readline().split(b";")[0] or b"0", 16):
            body += self._file.read(size)
            self._file.readline()
        self._file.readline()
        return body

    def write(self, data: bytes) -> None:
        """Send everything. Raises `OSError` when the peer has gone."""
        with self._lock:
            self._socket.sendall(data)

    def wait_for_peer(self) -> None:
        """Wait until the peer closes."""
        try:
            while self._file.read(1):
                pass
        except OSError:
            return

    def close(self, *, reset: bool = False) -> None:
        """Close; with `reset` the peer gets an RST instead of an end."""
        self.open = False
        try:
            if reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                self._socket.shutdown(socket.SHUT_RDWR)
            self._file.close()
            self._socket.close()
        except OSError:
            return


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The status line and the header lines."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def response(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """A whole response. A `Content-Length` that the caller gives is sent as given, also when it is wrong."""
    names = {name.lower() for name in headers}
    framing = {} if names & {"content-length", "transfer-encoding"} else {"Content-Length": str(len(body))}
    return head(status, {**framing, **headers}) + body


def chunk(text: str) -> bytes:
    """One chunk of a chunked body."""
    data = text.encode("utf-8", "surrogatepass")
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
