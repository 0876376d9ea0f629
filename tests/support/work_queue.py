"""A queue of work items that speaks HTTP: what hooks that fetch work talk to in the guide, and in tests."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit


@dataclass
class Item:
    """An item: its ad without the lease, who has it, and how often it was given and done."""

    name: str
    ad: str
    state: str = "waiting"  # leased, accepted, started, done
    lease: str = ""
    until: float = 0.0
    taken: int = 0
    done: int = 0
    codes: list[str] = field(default_factory=list)


class WorkQueue:
    """Serves on a port of its own while it is entered. ``lease_s``: how long an item that was taken waits for
    ``accept``."""

    def __init__(self, lease_s: float = 10.0) -> None:
        self.items: dict[str, Item] = {}
        self.said: list[str] = []
        self._lease_s = lease_s
        self._lock = threading.Lock()
        queue = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                word, _, lease = urlsplit(self.path).path.strip("/").partition("/")
                with queue._lock:
                    queue.said.append(self.path)
                    code, text = (
                        queue._take() if word == "take" else queue._hear(word, lease, urlsplit(self.path).query)
                    )
                body = text.encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def put(self, name: str, ad: str) -> None:
        """Add an item."""
        with self._lock:
            self.items[name] = Item(name, ad)

    def count(self, state: str) -> int:
        """How many items are in a state."""
        with self._lock:
            return sum(item.state == state for item in self.items.values())

    def _take(self) -> tuple[int, str]:
        now = time.monotonic()
        for item in self.items.values():
            if item.state == "waiting" or (item.state == "leased" and now >= item.until):
                item.state, item.lease, item.until = (
                    "leased",
                    f"{item.name}.{secrets.token_hex(4)}",
                    now + self._lease_s,
                )
                item.taken += 1
                return 200, f'{item.ad}Item = "{item.name}"\nLease = "{item.lease}"\n'
        return 200, ""

    def _hear(self, word: str, lease: str, query: str) -> tuple[int, str]:
        """Each word is harmless the second time, and from somebody who has the item no more."""
        item = next((item for item in self.items.values() if item.lease == lease), None)
        if item is None:
            return 409, ""
        if word == "accept" and item.state == "leased":
            item.state = "accepted"
        elif word == "start":
            if item.state not in ("leased", "accepted", "started"):
                return 409, ""
            item.state = "started"
        elif word in ("reject", "back") and item.state != "done":
            item.state, item.lease = "waiting", ""
        elif word == "done" and item.state != "done":
            item.state = "done"
            item.done += 1
            item.codes.append(query.partition("=")[2])
        return 200, ""

    def __enter__(self) -> WorkQueue:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
