"""A service of OAuth2 on this host that exchanges refresh tokens: as RFC 6749 has it, and as a service can fail."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class TokenEndpoint:
    """``POST /token``. Each refresh token is good once: the answer has the next, ``refresh-1`` after ``refresh-0``."""

    def __init__(self) -> None:
        #: The forms that came.
        self.asked: list[dict[str, str]] = []
        #: What is answered instead of a token.
        self.refuses: tuple[int, bytes] | None = None
        self.expires_s = 100
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                outer.asked.append({name: values[0] for name, values in form.items()})
                status, body = outer._answer(outer.asked[-1])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        self._next = 0
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self, form: dict[str, str]) -> tuple[int, bytes]:
        if self.refuses is not None:
            return self.refuses
        known = form.get("client_id") == "the-client" and form.get("client_secret") == "the-secret"
        if not known or form.get("refresh_token") != f"refresh-{self._next}":
            return 400, b'{"error": "invalid_grant"}'
        self._next += 1
        said = {"access_token": f"access-{self._next}", "expires_in": self.expires_s, "token_type": "Bearer"}
        return 200, json.dumps({**said, "refresh_token": f"refresh-{self._next}"}).encode()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
