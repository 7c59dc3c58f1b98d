"""The other end of a chat model: answers with what is given, then "ok", and keeps what was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

_USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
_ANSWERS: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "stop_sequence": None, "content": [{"type": "text", "text": "ok"}], "usage": _USAGE,
    },
    "/v1/chat/completions": {
        "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    },
    "/v1/responses": {
        "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "output": [{
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "ok", "annotations": []}],
        }],
    },
}  # fmt: skip


@contextmanager
def model_api(*said: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a provider of models, and the bodies of the requests that have reached it.

    Args:
        said: for each request, what stands in place of the fields of the usual answer.
    """
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            fields = said[len(bodies) - 1] if len(bodies) <= len(said) else {}
            own = {"id": f"resp_{len(bodies)}"}
            answer = json.dumps({**_ANSWERS[self.path.partition("?")[0]], **own, **fields}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            thread.join()
