"""``slotwise node upgrade --all``: hosts one after the other, by the administrator's own ssh.

No host of a pool installs programs on another: what is done on a host is done with the rights that the administrator
has there anyway. Each host is upgraded, and has to answer with the new version, before the next one is begun; the first
that fails is the last. The same command goes on from there: hosts that run the version already are passed over.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise.errors import HostError, PeerUnavailableError

if TYPE_CHECKING:
    from slotwise.classad import ClassAd
    from slotwise.cli.common.invocation import Invocation
    from slotwise.wire.gen import node_pb2

#: The order in which roles are upgraded: a newer central manager knows what older daemons say.
_ROLES = ("cm", "ap", "ep")
#: The kinds of ads that tell the versions of a host's daemons, by role; that of the master in any case.
_KINDS = {"cm": ("Collector", "Negotiator"), "ap": ("Scheduler",), "ep": ("StartDaemon",)}
#: How often a host is looked at, in seconds.
_LOOK_S = 1.0
#: What is run on a host, with the package as its input: $1 is the package's name, what follows the command.
_REMOTE = 'd=$(mktemp -d) && trap \'rm -rf "$d"\' EXIT && cat > "$d/$1" && n=$1 && shift && "$@" --package "$d/$n"'
_WHICH = "if command -v dpkg >/dev/null 2>&1; then echo deb; elif command -v rpm >/dev/null 2>&1; then echo rpm; fi"


class How(Struct, frozen=True):
    """How hosts are reached, and what is done there.

    :param ssh: the words of a command that takes a host and a command line, as ssh does.
    :param sudo: whether root's rights are had by sudo.
    :param drain: whether execution points are emptied before.
    :param wait_s: how long a host may take to be drained, and to be back with the new version.
    """

    packages: Sequence[Path]
    version: str
    ssh: Sequence[str]
    sudo: bool = False
    drain: bool = False
    wait_s: float = 600.0


def in_order(nodes: Iterable[node_pb2.Node]) -> list[node_pb2.Node]:
    """Hosts in the order in which they are upgraded."""
    return sorted(nodes, key=lambda node: (min((_ROLES.index(role) for role in node.roles), default=9), node.name))


def version_of(package: Path) -> str:
    """The version that a package has; empty where this host cannot tell."""
    asked = {
        ".deb": ["dpkg-deb", "-f", str(package), "Version"],
        ".rpm": ["rpm", "-qp", "--nosignature", "--qf", "%{VERSION}", str(package)],
    }.get(package.suffix)
    if asked is None or shutil.which(asked[0]) is None:
        return ""
    told = subprocess.run(asked, capture_output=True, text=True)
    # Debian's has the revision of the package behind it.
    return re.sub(r"-[^-]*$", "", told.stdout.strip()) if told.returncode == 0 else ""


class Rolling:
    """Upgrades hosts in turn."""

    def __init__(self, how: How, inv: Invocation) -> None:
        self._how = how
        self._inv = inv

    def upgrade(self, node: node_pb2.Node, here: Callable[[], object] | None = None) -> None:
        """Upgrade a host, and wait until it runs the new version.

        :param here: installs the package on this host, if it is meant.
        :raises SlotwiseError: when that fails.
        """
        began = time.monotonic()
        there = [kind for kind in _kinds(node) if self._ads(kind, node.name, [])]
        drains = self._how.drain and "ep" in node.roles
        if drains:
            self._drain(node)
        if here is not None:
            here()
        else:
            package = self._package(node)
            words = [*(["sudo", "-n"] if self._how.sudo else []), "slotwise", "node", "upgrade"]
            self._run(node, ["sh", "-c", _REMOTE, "sh", package.name, *words], package)
        self._until(node, f"runs {self._how.version}", lambda: self._versions(node, there) == {self._how.version})
        if drains:
            self._drain(node, cancel=True)
        self._inv.out(f"{node.name}: {node.version or '?'} -> {self._how.version}, {time.monotonic() - began:.0f} s")
        self._inv.stdout.flush()

    def _package(self, node: node_pb2.Node) -> Path:
        if len(self._how.packages) == 1:
            return self._how.packages[0]
        kind = self._run(node, ["sh", "-c", _WHICH]).strip()
        found = next((path for path in self._how.packages if path.suffix == f".{kind}"), None)
        if found is None:
            raise HostError(f"{node.name} takes {kind or 'no'} packages", hint="name one of that kind with --package")
        return found

    def _run(self, node: node_pb2.Node, words: Sequence[str], package: Path | None = None) -> str:
        """Run a command on a host; returns what it printed.

        :raises HostError: when it fails.
        """
        line = [*self._how.ssh, node.name, shlex.join(words)]
        try:
            if package is None:
                done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            else:
                with package.open("rb") as file:
                    done = subprocess.run(line, stdin=file, capture_output=True, text=True)
        except OSError as error:
            raise HostError(f"{line[0]} cannot be run: {error.strerror or error}") from None
        if done.returncode:
            said = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise HostError(f"{node.name}: the upgrade ended with status {done.returncode}:\n  {said}")
        return done.stdout

    # ---- waiting

    def _drain(self, node: node_pb2.Node, *, cancel: bool = False) -> None:
        from slotwise.cli.pool import drain

        words = ["-cancel"] if cancel else ["-graceful", "-reason", "upgrade"]
        if drain.main([*words, node.name], self._inv):
            raise HostError(f"{node.name}: it could not be drained")
        if not cancel:
            self._until(node, "is drained", lambda: not self._busy(node.name))

    def _until(self, node: node_pb2.Node, what: str, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._how.wait_s
        while True:
            try:
                if true():
                    return
            except PeerUnavailableError:
                pass  # the central manager itself is being upgraded
            if time.monotonic() > deadline:
                raise HostError(
                    f"{node.name}: within {self._how.wait_s:.0f} s nothing showed that it {what}",
                    hint="its MasterLog tells more; --wait gives it more time",
                )
            time.sleep(_LOOK_S)

    def _versions(self, node: node_pb2.Node, kinds: Sequence[str]) -> set[str]:
        """The versions that the daemons of a host advertise; an empty one where there is none of a kind."""
        found: set[str] = set()
        for kind in kinds:
            versions = {str(ad.get("SlotwiseVersion") or "") for ad in self._ads(kind, node.name, ["SlotwiseVersion"])}
            found |= versions or {""}
        return found

    def _busy(self, host: str) -> bool:
        return any(str(ad.get("State")) != "Drained" for ad in self._ads("Machine", host, ["State"]))

    def _ads(self, kind: str, host: str, wanted: list[str]) -> list[ClassAd]:
        import grpc

        from slotwise.classad import quote
        from slotwise.table import unpack_ads
        from slotwise.wire.gen import collector_pb2_grpc, common_pb2
        from slotwise.wire.status import to_error

        query = common_pb2.AdQuery(kind=kind, constraint=f"Machine =?= {quote(host)}", projection=wanted)
        try:
            stub = self._inv.reading(collector_pb2_grpc.CollectorStub, "collector")
            chunks = list(stub.Query(query, timeout=20))
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the collector") from None
        return [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]


def _kinds(node: node_pb2.Node) -> list[str]:
    return ["DaemonMaster", *(kind for role in node.roles for kind in _KINDS.get(role, ()))]
