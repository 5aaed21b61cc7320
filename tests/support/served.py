"""The provider's HTTP interface on this machine, for agents whose model is the SDK's default."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import agents
from openai import AsyncOpenAI

Answer = Sequence[Any] | int


@contextmanager
def served(answers: Sequence[Answer]) -> Generator[list[dict[str, Any]], None, None]:
    """Serve responses to the SDK's default client.

    Args:
        answers: for each request in turn, the output items, or the HTTP status that it fails with.

    Yields:
        The bodies of the requests.
    """
    requests: list[dict[str, Any]] = []
    server = HTTPServer(("127.0.0.1", 0), _handler(list(answers), requests))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    agents.set_default_openai_client(AsyncOpenAI(api_key="none", base_url=url, max_retries=0), use_for_tracing=False)
    try:
        yield requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(waiting: list[Answer], requests: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = waiting.pop(0)
            if isinstance(answer, int):
                return self._send(answer, {"error": {"message": "no answer"}})
            return self._send(200, _response(len(requests), answer))

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read the requests, not a log."""

    return Handler


def _response(number: int, output: Sequence[Any]) -> dict[str, Any]:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": "served",
        "output": [item.model_dump(mode="json", exclude_unset=True) for item in output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "completed",
        "usage": {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11, **details},
    }
