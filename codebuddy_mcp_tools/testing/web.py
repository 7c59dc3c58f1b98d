"""The script over streamable HTTP (`/mcp`) and over the older HTTP with SSE (`/sse`, `/messages`), on loopback."""

# ruff: noqa: ARG002 - `stream` matters to some of the exchanges only
from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import Mapping

from codebuddy_mcp_tools.testing.errors import ScriptError
from codebuddy_mcp_tools.testing.protocol import Protocol
from codebuddy_mcp_tools.testing.script import nth
from codebuddy_mcp_tools.testing.steps import Exchange, block_for_ever, run
from codebuddy_mcp_tools.testing.wire import Connection, Request, chunk, head, response

SESSION = "Mcp-Session-Id"
STREAM_HEAD = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}


class HttpExchange(Exchange):
    """One HTTP request. Messages go into its own event stream, or make up its JSON answer.

    Attributes:
        connection: where the answer goes.
        streams: the standing streams by session id, for messages that belong to no request.
    """

    def __init__(self, message: Mapping[str, object], connection: Connection, site: Site, session: str) -> None:
        super().__init__(message)
        self.connection = connection
        self.site = site
        self.session = session
        self.extra: dict[str, str] = {}
        self.streaming = False
        self.ended = False

    def send(self, message: Mapping[str, object], *, stream: str | None = None) -> None:
        if stream == "get":
            self.site.push(self.session, message)
        elif self.site.answers_json and not self.streaming and "method" not in message:
            self.respond(200, {"Content-Type": "application/json"}, json.dumps(message).encode())
        elif self.site.answers_json and not self.streaming:
            self.site.push(self.session, message)
        else:
            self.sse(f"event: message\ndata: {json.dumps(message)}\n\n")

    def raw(self, data: bytes) -> None:
        self.ended = True
        self.connection.write(data)

    def silence(self) -> None:
        self.answered = self.ended = True
        self.connection.wait_for_peer()
        self.connection.close()

    def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.ended = True
        self.connection.write(response(status, {**self.extra, **headers}, body))

    def sse(self, text: str) -> None:
        if not self.streaming:
            self.streaming = True
            self.connection.write(head(200, {**STREAM_HEAD, **self.extra}))
        self.connection.write(chunk(text))

    def end(self) -> None:
        if self.streaming:
            self.connection.write(b"0\r\n\r\n")
        elif not self.ended:
            self.sse(": nothing\n\n")
            self.connection.write(b"0\r\n\r\n")
        self.streaming, self.ended = False, True

    def cut(self, *, reset: bool) -> None:
        self.ended = True
        self.connection.close(reset=reset)

    def finish(self) -> None:
        """Leave the connection in the state in which it can take the next request, unless a step wanted otherwise."""
        if self.streaming:
            self.end()
        elif not self.ended:
            self.respond(202, {}, b"")


class PostedExchange(HttpExchange):
    """A message posted to the older transport: accepted with 202, answered on the standing stream."""

    def send(self, message: Mapping[str, object], *, stream: str | None = None) -> None:
        self._accept()
        self.site.push(self.session, message)

    def silence(self) -> None:
        self.answered = True
        self._accept()

    def sse(self, text: str) -> None:
        self._accept()
        self.site.push_text(self.session, text)

    def cut(self, *, reset: bool) -> None:
        if reset:
            super().cut(reset=True)
        else:
            self._accept()
            self.site.cut_stream(self.session)

    def _accept(self) -> None:
        if not self.ended:
            self.respond(202, {}, b"Accepted")


class Site:
    """One listening process.

    Attributes:
        answers_json: whether answers are single JSON documents instead of event streams (`"http": {"answer": "json"}`).
        port: the port it listens on.
    """

    def __init__(self, protocol: Protocol, port: int) -> None:
        self.protocol = protocol
        options = protocol.script.http
        self.answers_json = options.get("answer", "sse") == "json"
        self._with_sessions = options.get("session", True)
        self._streams: dict[str, Connection] = {}
        self._listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        """Accept connections for ever."""
        while True:
            peer, _ = self._listener.accept()
            self.protocol.state.record("connection")
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._talk, args=(Connection(peer),), daemon=True).start()

    def push(self, session: str, message: Mapping[str, object]) -> None:
        """Send a message on the standing stream of a session; without one it is lost, and the log says so."""
        self.push_text(session, f"event: message\ndata: {json.dumps(message)}\n\n")

    def push_text(self, session: str, text: str) -> None:
        """Write text on the standing stream of a session."""
        stream = self._streams.get(session)
        if stream is None or not stream.open:
            self.protocol.state.record("undelivered", session=session, text=text)
            return
        stream.write(chunk(text))

    def cut_stream(self, session: str) -> None:
        """Close the standing stream of a session in the middle."""
        if session in self._streams:
            self._streams.pop(session).close()

    def _talk(self, connection: Connection) -> None:
        try:
            while connection.open and (request := connection.read()) is not None:
                self._serve(connection, request)
        except (OSError, ValueError) as error:
            self.protocol.state.record("client_gone", error=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the script's author who must see it
            self.protocol.state.record("script_error", error=f"{type(error).__name__}: {error}")
            sys.excepthook(type(error), error, error.__traceback__)
            os._exit(70)
        finally:
            connection.close()

    def _serve(self, connection: Connection, request: Request) -> None:
        self.protocol.state.record("http", method=request.method, target=request.target, headers=dict(request.headers))
        session = request.headers.get(SESSION.lower(), "") or request.target.partition("session_id=")[2]
        exchange = HttpExchange({}, connection, self, session)
        for key, plans in ((request.path, self.protocol.script.paths), (request.method, self.protocol.script.on)):
            if key in plans:
                exchange.number = self.protocol.state.count(f"http.{key}")
                run(nth(plans[key], exchange.number), self.protocol, exchange)
                if exchange.answered:
                    exchange.finish() if not exchange.ended else None
                    return
        self._route(exchange, request)

    def _route(self, exchange: HttpExchange, request: Request) -> None:
        match request.method, request.path.rstrip("/"):
            case "GET", "/sse":
                self._open_older_stream(exchange)
            case "POST", "/messages":
                self._post(PostedExchange({}, exchange.connection, self, exchange.session), request)
            case (("GET" | "POST" | "DELETE"), "/mcp") if self._unknown(exchange, request):
                exchange.respond(404, {"Content-Type": "text/plain"}, b"Session not found")
            case "GET", "/mcp":
                exchange.sse(": open\n\n")
                self._keep_stream(exchange)
            case "DELETE", "/mcp":
                self.protocol.sessions.discard(exchange.session)
                exchange.respond(200, {}, b"")
            case "POST", "/mcp":
                self._post(exchange, request)
            case _:
                exchange.respond(404, {"Content-Type": "text/plain"}, b"Not found")

    def _unknown(self, exchange: HttpExchange, request: Request) -> bool:
        if not self._with_sessions or b'"initialize"' in request.body:
            return False
        return exchange.session not in self.protocol.sessions

    def _post(self, exchange: HttpExchange, request: Request) -> None:
        try:
            message = json.loads(request.body)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self.protocol.state.record("garbage", raw=request.body.decode("latin-1"))
            exchange.respond(400, {"Content-Type": "text/plain"}, b"Not a JSON-RPC message")
            return
        exchange.request = message
        if message.get("method") == "initialize" and self._with_sessions and not isinstance(exchange, PostedExchange):
            exchange.session = secrets.token_hex(8)
            self.protocol.sessions.add(exchange.session)
            exchange.extra[SESSION] = exchange.session
        self.protocol.play(exchange, self.protocol.accept(exchange))
        exchange.finish()

    def _open_older_stream(self, exchange: HttpExchange) -> None:
        exchange.session = secrets.token_hex(8)
        endpoint = self.protocol.script.http.get("endpoint", f"/messages?session_id={exchange.session}")
        exchange.sse(f"event: endpoint\ndata: {endpoint}\n\n" if endpoint else ": no endpoint\n\n")
        self._keep_stream(exchange)

    def _keep_stream(self, exchange: HttpExchange) -> None:
        self._streams[exchange.session] = exchange.connection
        exchange.connection.wait_for_peer()
        if self._streams.get(exchange.session) is exchange.connection:
            del self._streams[exchange.session]
        exchange.connection.close()


class StartOfSite(Exchange):
    """The start of the process: there is nobody to write to yet."""

    def silence(self) -> None:
        block_for_ever()


def serve(protocol: Protocol, port: int) -> None:
    """Carry out `on_start`, listen, say `PORT n` on stdout, and serve until stdin ends."""
    try:
        protocol.start(StartOfSite({}))
        site = Site(protocol, port)
    except (ScriptError, OSError) as error:
        protocol.state.record("script_error", error=f"{type(error).__name__}: {error}")
        sys.exit(f"{type(error).__name__}: {error}")
    threading.Thread(target=site.serve, daemon=True).start()
    sys.stdout.write(f"PORT {site.port}\n")
    sys.stdout.flush()
    while os.read(0, 1 << 10):
        pass
    protocol.state.record("eof")
    os._exit(0)
