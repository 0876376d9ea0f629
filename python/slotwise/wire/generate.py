"""Generates the message and service classes of `proto/slotwise/v1` into `slotwise/wire/gen`.

Run as ``python -m slotwise.wire.generate`` in a checkout (needs grpcio-tools). The result is committed, so that
installing needs no protobuf compiler; a test checks that it is current.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE_DIR = Path(__file__).resolve().parent
REPO = PACKAGE_DIR.parents[2]


def generate(out_dir: Path, proto_dir: Path = REPO / "proto") -> None:
    """Write the generated modules into ``out_dir`` with imports that work inside ``slotwise.wire.gen``."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    files = sorted(str(p.relative_to(proto_dir)) for p in (proto_dir / "slotwise/v1").glob("*.proto"))
    out_dir.mkdir(parents=True, exist_ok=True)
    flags = [f"--{kind}_out={out_dir}" for kind in ("python", "grpc_python", "pyi")]
    status = protoc.main(["protoc", f"-I{proto_dir}", *flags, *files])
    if status != 0:
        raise SystemExit(status)
    produced = out_dir / "slotwise/v1"
    for path in sorted(produced.iterdir()):
        text = re.sub(r"^from slotwise\.v1 import", "from slotwise.wire.gen import", path.read_text(), flags=re.M)
        (out_dir / path.name).write_text(text)
        path.unlink()
    produced.rmdir()
    produced.parent.rmdir()
    (out_dir / "__init__.py").write_text('"""Generated from proto/slotwise/v1; do not edit."""\n')


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE_DIR / "gen")
