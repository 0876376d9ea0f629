"""A registry of images on the loopback interface, as far as `docker pull` needs one. Docker takes it without TLS."""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.waiting import LIMIT_S

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_SIF_CONFIG = "application/vnd.sylabs.sif.config.v1+json"
_SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"
_OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Registry:
    """Serves one file tree under any tag of any name that is not ``absent``; each tag is an image of its own."""

    tree: bytes
    #: What the name ``sif`` means instead: an image file of Apptainer's, as ``oras://`` has them.
    sif: bytes = b""
    #: How often the manifest of a tag was asked for, and how often a layer.
    asked: Counter[str] = field(default_factory=Counter)
    #: While it is not set, manifests are held back.
    open: threading.Event = field(default_factory=threading.Event)
    #: While it is set, every answer is that the server cannot answer.
    overloaded: bool = False
    architecture: str = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    _blobs: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open.set()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = registry._answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Content-Digest", _digest(body))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """End it."""
        self.open.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if self.overloaded:
            return 429, "application/json", _error("TOOMANYREQUESTS", "toomanyrequests: come back later")
        parts = path.strip("/").split("/")
        if parts == ["v2"]:
            return 200, "application/json", b"{}"
        name, kind, what = "/".join(parts[1:-2]), parts[-2], parts[-1]
        if kind == "blobs" and what in self._blobs:
            self.asked["layer"] += self._blobs[what][:2] == b"\x1f\x8b"
            return 200, "application/octet-stream", self._blobs[what]
        if kind != "manifests" or name == "absent":
            return 404, "application/json", _error("MANIFEST_UNKNOWN", "manifest unknown")
        form = _OCI_MANIFEST if name == "sif" else _MANIFEST
        if what in self._blobs:
            return 200, form, self._blobs[what]
        self.asked[f"{name}:{what}"] += 1
        self.open.wait(LIMIT_S)
        return 200, form, self._sif_manifest() if name == "sif" else self._manifest(what)

    def _sif_manifest(self) -> bytes:
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": _OCI_MANIFEST,
            "config": {"mediaType": _SIF_CONFIG, "size": 2, "digest": _digest(b"{}")},
            "layers": [{
                "mediaType": _SIF_LAYER, "size": len(self.sif), "digest": _digest(self.sif),
                "annotations": {"org.opencontainers.image.title": "image.sif"},
            }],
        }).encode()  # fmt: skip
        for blob in (b"{}", self.sif, manifest):
            self._blobs[_digest(blob)] = blob
        return manifest

    def _manifest(self, tag: str) -> bytes:
        layer = gzip.compress(self.tree, mtime=0)
        config = json.dumps({
            "architecture": self.architecture, "os": "linux", "config": {"Labels": {"tag": tag}},
            "rootfs": {"type": "layers", "diff_ids": [_digest(self.tree)]},
            "history": [{"created": "2024-01-01T00:00:00Z"}],
        }).encode()  # fmt: skip
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "size": len(config), "digest": _digest(config)},
            "layers": [{"mediaType": _LAYER, "size": len(layer), "digest": _digest(layer)}],
        }).encode()  # fmt: skip
        for blob in (layer, config, manifest):
            self._blobs[_digest(blob)] = blob
        return manifest


def _error(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()
