"""``slotwise node uninstall``: undoes what ``node install`` has done on this host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slotwise.cli.common.parser import Parser
from slotwise.cli.host import personal_pool
from slotwise.cli.pool.node import install as installing
from slotwise.cli.pool.node.installation import Installation
from slotwise.cli.pool.node.roster import admitted
from slotwise.errors import ConfigError, SlotwiseError, UnauthenticatedError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.home import PoolHome


def uninstall(args: list[str], inv: Invocation) -> int:
    """Undo the installation of this host."""
    parser = Parser(
        inv,
        "node uninstall",
        "Undo what `node install` has done on this host: it leaves the pool, its daemons stop, and its certificate, "
        "keys, token and configuration are removed. Queue, history and logs stay.",
    )
    parser.add_argument("--purge", "-purge", action="store_true", help="remove queue, history and logs, too")
    parser.add_argument(
        "--yes", "-yes", action="store_true", help="of a central manager: although other hosts are in its pool"
    )
    parser.add_argument("--home", "-home", metavar="DIRECTORY", help="of the pool on this host (SLOTWISE_HOME)")
    options = parser.take(args)
    if options is None:
        return 0
    if options.home:
        inv = replace(inv, env={**inv.env, "SLOTWISE_HOME": str(inv.path(options.home))})
    home = inv.home
    made = Installation.of(home)
    spool = _named_spool(inv)
    if made is None:
        raise UsageError(f"`node install` has done nothing in {home.root}", hint="--home names another directory")
    if "cm" in made.roles and not options.yes:
        _require_alone(inv)
    if made.collector and made.complete:
        _leave(made, inv)
    _stop(made, home, inv)
    for path in _made(made, home, purge=options.purge):
        _remove(path, inv)
    for was, now in made.moved.items():
        if Path(now).exists():
            Path(now).rename(was)
            inv.out(f"put back {was}")
    Installation.forget(home)
    if options.purge:
        _remove_empty(home.root)
        if spool is not None:
            inv.out(f"Queue and history are left in {spool}, which SPOOL names.")
    else:
        inv.out(f"Queue, history and logs are left in {home.root}; --purge removes them.")
    return 0


def _require_alone(inv: Invocation) -> None:
    """See that no other host is in the pool of this central manager.

    :raises UsageError: when there is one, or nobody knows.
    """
    own = installing.own_name()
    try:
        others = [name for name in admitted(inv) if name != own]
    except SlotwiseError as error:
        raise UsageError(f"nobody knows which hosts are in this pool: {error}", hint="--yes ends it anyway") from None
    if others:
        raise UsageError(
            f"{len(others)} hosts are in this pool, and could not go on: {', '.join(sorted(others)[:5])}",
            hint="remove them first, or end the pool with --yes",
        )


def _leave(made: Installation, inv: Invocation) -> None:
    """Have the pool revoke this host's identity."""
    import time

    import grpc

    from slotwise.daemon.host_tls import HostTls
    from slotwise.wire import channel
    from slotwise.wire.credential import HostCredential
    from slotwise.wire.gen import common_pb2, node_pb2_grpc
    from slotwise.wire.keys import PoolSecrets
    from slotwise.wire.status import to_error

    secrets, name = PoolSecrets(inv.home), installing.own_name()
    try:
        config = inv.knobs()
        authorities = config.get("AUTH_SSL_CLIENT_CAFILE") or str(HostTls(inv.home).authorities)
        channel.use_tls(grpc.ssl_channel_credentials(Path(authorities).read_bytes()))
        word = secrets.token_file.read_text().strip()
        shown = HostCredential(f"condor@{name}", secrets.host_key(), lambda: word, ["ADVERTISE_MASTER"], time.time)
        with channel.open_blocking(made.collector) as opened:
            stub = node_pb2_grpc.NodesStub(opened)
            stub.Leave(common_pb2.Empty(), metadata=shown.metadata(made.collector), timeout=15)
        inv.out(f"{name} has left the pool of {made.collector}")
    except (grpc.RpcError, OSError, SlotwiseError) as failure:
        why = to_error(failure, peer="the collector") if isinstance(failure, grpc.RpcError) else failure
        if isinstance(why, UnauthenticatedError):
            inv.out(f"{name} is no part of the pool of {made.collector} any more")
            return
        inv.err(f"WARNING: the pool does not know that {name} leaves: {why}")
        inv.err(f"  On the central manager: slotwise node remove {name}")


def _named_spool(inv: Invocation) -> Path | None:
    """The directory of the durable state where SPOOL names one, which may hold more than this pool's."""
    try:
        return inv.home_of(inv.knobs()).named_spool
    except ConfigError:
        return None


def _stop(made: Installation, home: PoolHome, inv: Invocation) -> None:
    if made.service and installing.has_service(home):
        installing.systemctl("disable", "--now", "slotwise.service")
    personal_pool.down([], inv)


def _made(made: Installation, home: PoolHome, *, purge: bool) -> list[Path]:
    """What the installation has made, and the daemons since then that is worth nothing without it."""
    secrets = home.secrets
    found = [Path(made.config), home.root / "tls"]
    found += [secrets / name for name in ("host.token", "host.pem", "pool.json")]
    if "cm" in made.roles:
        found += [secrets / "signing", home.spool / "nodes.sqlite"]
        found += [home.spool / f"nodes.sqlite-{kind}" for kind in ("wal", "shm")]
    if purge:
        found += [home.root / "config.local", home.root / "config.d", home.run, home.secrets, home.log, home.spool]
        found += [home.execute, home.sandboxes]
    return [path for path in found if path.exists() or path.is_symlink()]


def _remove(path: Path, inv: Invocation) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    inv.out(f"removed {path}")


def _remove_empty(root: Path) -> None:
    try:
        root.rmdir()
    except OSError:
        return  # the package's, or somebody has put something there
