"""A web server on loopback with files in memory: it has ranges, and cuts off, refuses or redirects as it is told."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    """One request as it came, with the headers that a plugin decides about."""

    method: str
    path: str
    range: str = ""
    if_range: str = ""
    authorization: str = ""


class WebFiles:
    """Files by path. ``cut``: paths, and after how many bytes an answer ends, one answer each. ``statuses`` and
    ``redirects`` by path. ``etags``: sent with the file; without one no If-Range is needed. ``headers`` by path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: defaultdict[str, list[int]] = defaultdict(list)
        self.statuses: dict[str, int] = {}
        self.redirects: dict[str, str] = {}
        self.etags: dict[str, str] = {}
        self.headers: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.has_ranges = True
        self.asked: list[Asked] = []
        self.port = 0

    @property
    def base(self) -> str:
        """Where it is."""
        return f"http://localhost:{self.port}"

    @contextmanager
    def serving(self) -> Iterator[WebFiles]:
        """Serve until the block ends."""
        files = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                files.answer(self)

            def do_PUT(self) -> None:
                files.take(self)

            def log_message(self, *args: object) -> None:
                del args

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_port
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def _note(self, handler: BaseHTTPRequestHandler) -> None:
        names = "Range", "If-Range", "Authorization"
        values = (handler.headers.get(name, "") for name in names)
        self.asked.append(Asked(handler.command, handler.path, *values))

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a GET."""
        self._note(handler)
        path = handler.path.partition("?")[0]
        status, data = self.statuses.get(path, 200), self.files.get(path, b"")
        if path in self.redirects:
            status = 302
        elif path not in self.files and status == 200:
            status = 404
        start, tag = 0, self.etags.get(path, "")
        asked = handler.headers.get("Range", "")
        if status == 200 and asked and self.has_ranges and handler.headers.get("If-Range", tag) == tag:
            status, start = 206, int(asked.removeprefix("bytes=").partition("-")[0])
        body = data[start:] if status in (200, 206) else b""
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        if status == 206:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if tag:
            handler.send_header("ETag", tag)
        if path in self.redirects:
            handler.send_header("Location", self.redirects[path])
        for name, value in self.headers[path].items():
            handler.send_header(name, value)
        handler.end_headers()
        if self.cut[path]:
            body = body[: self.cut[path].pop(0)]
            handler.close_connection = True
        handler.wfile.write(body)

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        """Take a PUT."""
        self._note(handler)
        data = handler.rfile.read(int(handler.headers["Content-Length"]))
        status = self.statuses.get(handler.path, 201)
        if status == 201:
            self.files[handler.path] = data
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
