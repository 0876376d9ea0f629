"""How daemons of a host find each other: one small file per daemon in the pool's ``run`` directory."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from slotwise import whole_file
from slotwise.errors import PeerUnavailableError
from slotwise.home import PoolHome
from slotwise.model.knobs import Knobs
from slotwise.wire import contact


class DaemonAddress(Struct, frozen=True):
    """Where a daemon answers.

    ``tcp`` is ``host:port`` as bound; ``socket`` the path of a UNIX socket, empty where there is none;
    ``reach`` is the address for other machines (:mod:`slotwise.wire.contact`), empty when the daemon listens on the
    loopback only; ``certificate_port`` the port that requires a certificate of its callers, 0 where none does.
    """

    daemon: str
    pid: int
    tcp: str
    socket: str = ""
    name: str = ""
    started_at: int = 0
    reach: str = ""
    certificate_port: int = 0

    @property
    def target(self) -> str:
        """The gRPC target to tell other daemons: one that they can reach wherever they are."""
        return self.reach or self.local

    @property
    def shown(self) -> str:
        """``host:port`` for people and records: as others reach it, else as bound."""
        return self.reach or self.tcp

    @property
    def for_certificates(self) -> str:
        """``host:port`` for callers that prove themselves by a certificate; empty where none count."""
        if not self.certificate_port:
            return ""
        found = contact.parse(self.shown)
        if found is None:
            return ""
        return str(found.for_certificates if found.sock else replace(found, port=self.certificate_port))

    @property
    def sock(self) -> str:
        """What the daemon is called behind its host's shared port; empty where it has a port of its own."""
        found = contact.parse(self.reach)
        return "" if found is None else found.sock

    @property
    def local(self) -> str:
        """The gRPC target for callers on the same host: the UNIX socket where there is one."""
        return f"unix:{self.socket}" if self.socket else self.tcp


_FIELDS = frozenset(DaemonAddress.__struct_fields__)


def socket_file(home: PoolHome, daemon: str) -> Path:
    """Path of the daemon's UNIX socket."""
    return home.run / f"{daemon}.sock"


def address_file(home: PoolHome, daemon: str) -> Path:
    """The file that tells where ``daemon`` answers."""
    return home.run / f"{daemon}.json"


def publish(home: PoolHome, address: DaemonAddress) -> None:
    """Write the address file in one step, so that readers see all of it or the former one."""
    path = address_file(home, address.daemon)
    # Users of the host find the daemon by it.
    whole_file.write(path, json.dumps(asdict(address)) + "\n", mode=0o644, exact=True, lasts=False)


def lookup(home: PoolHome, daemon: str) -> DaemonAddress:
    """Where ``daemon`` answers, from its address file.

    :raises PeerUnavailableError: when no such daemon has been started in this pool.
    """
    path = address_file(home, daemon)
    try:
        said = json.loads(path.read_text())
        # What a later version says besides is nothing that this one needs.
        return DaemonAddress(**{name: value for name, value in said.items() if name in _FIELDS})
    except FileNotFoundError:
        raise PeerUnavailableError(
            f"no {daemon} runs in the pool at {home.root}", hint="start the pool with `slotwise up`"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise PeerUnavailableError(f"{path} is not an address file: {error}", hint="remove it") from None


def configured_collector(config: Knobs) -> str | None:
    """``host:port`` of a collector that the configuration names; None when that of the own home is meant.

    COLLECTOR_HOST (the first of a list) with a port counts as it stands. Without one it counts when somebody set it, or
    CONDOR_HOST, to another host; COLLECTOR_PORT (9618) is then the port.
    """
    host = (config.get("COLLECTOR_HOST") or "").split(",")[0].strip()
    if (given := contact.parse(host)) is not None:
        return None if given.port == 0 and not given.broker else str(given)
    host = host.strip("[]")
    full_name = config.get("FULL_HOSTNAME") or socket.gethostname()
    own = {"", "localhost", "127.0.0.1", socket.gethostname(), full_name, full_name.partition(".")[0]}
    if host in own or not (config.is_set("COLLECTOR_HOST") or config.is_set("CONDOR_HOST")):
        return None
    return contact.join(host, config.get_int("COLLECTOR_PORT"))


def published(home: PoolHome) -> list[str]:
    """Names of the daemons that have an address file, whether or not they live."""
    return sorted(path.stem for path in home.run.glob("*.json"))


def withdraw(home: PoolHome, daemon: str, pid: int) -> None:
    """Remove the address file if it is still that of process ``pid``."""
    try:
        if lookup(home, daemon).pid == pid:
            address_file(home, daemon).unlink(missing_ok=True)
    except (PeerUnavailableError, PermissionError):
        pass  # one that has given up root leaves it to the master
