"""``slotwise node install``: makes a host the central manager of a new pool, or part of one."""

from __future__ import annotations

import shutil
import subprocess
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slotwise.cli.common.parser import Parser
from slotwise.cli.host import personal_pool
from slotwise.cli.pool.node.installation import Installation, config_file, is_host_pool, write_config
from slotwise.errors import HostError, SlotwiseError, UsageError
from slotwise.model.pool_host import JOINING, daemons_of_roles, host_name, roles_of

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.home import PoolHome

_UNIT = "slotwise.service"
#: How long the host may take until the collector has heard of it, in seconds.
_HEARD_S = 60.0


def install(args: list[str], inv: Invocation) -> int:
    """Make this host part of a pool."""
    parser = Parser(
        inv,
        "node install",
        "Make this host part of a pool: with --role cm the first one of a new pool; with --join another, once an "
        "administrator approves the code that is shown. Certificates, keys, token and configuration are made, and the "
        "daemons are started.",
    )
    parser.add_argument("--role", "-role", action="append", metavar="ROLE", help="cm, ap, ep; several with commas")
    parser.add_argument("--join", "-join", metavar="HOST[:PORT]", help="the central manager of the pool")
    parser.add_argument("--fingerprint", "-fingerprint", metavar="SHA256:...", help="of the pool's authority")
    parser.add_argument("--token-file", "-token-file", metavar="FILE", help="with a join token; - is the input")
    parser.add_argument("--wait", "-wait", default="1h", metavar="TIME", help="how long to wait for the approval (1h)")
    parser.add_argument(
        "--domain", "-domain", action="append", metavar="DOMAIN", help="with --role cm: where hosts may be"
    )
    parser.add_argument("--uid-domain", "-uid-domain", metavar="DOMAIN", help="with --role cm: UID_DOMAIN of the pool")
    parser.add_argument("--port", "-port", type=int, metavar="PORT", help="with --role cm: of the collector (9618)")
    parser.add_argument("--ca", "-ca", choices=("own", "site"), default="own", help="who issues certificates")
    parser.add_argument("--certificate", "-certificate", metavar="FILE", help="with --ca site: of this host (PEM)")
    parser.add_argument("--key", "-key", metavar="FILE", help="with --ca site: its private key")
    parser.add_argument("--ca-file", "-ca-file", metavar="FILE", help="with --ca site: who signs hosts' certificates")
    parser.add_argument("--home", "-home", metavar="DIRECTORY", help="of the pool on this host (SLOTWISE_HOME)")
    parser.add_argument("--no-start", "-no-start", action="store_true", help="leave the daemons as they are")
    options = parser.take(args)
    if options is None:
        return 0
    if options.home:
        inv = replace(inv, env={**inv.env, "SLOTWISE_HOME": str(inv.path(options.home))})
    joins = bool(options.join or options.token_file)
    roles = roles_of(options.role or [], JOINING if joins else ("cm", "ap", "ep"))
    _check(options, roles, joins)
    name = own_name()
    home = inv.home
    home.create()
    found = Installation.of(home)
    if found is not None and found.complete:
        raise UsageError(
            f"this host is installed already, as {', '.join(found.roles)}",
            hint="`slotwise node uninstall` undoes that",
        )
    path = config_file(home, inv.env.get("CONDOR_CONFIG"))
    made = found or Installation(roles)
    made.roles, made.config = roles, str(path)
    made.save(home)
    if joins:
        from slotwise.cli.pool.node.joining import join

        place = join(options, name, roles, inv)
        made.collector = place.collector
        _leave_former_pool(made, home, inv)
        place.write(home)
        settings = _settings(roles, options, inv) | place.settings()
    else:
        made.collector = ""
        settings = _settings(roles, options, inv) | _new_pool(options, name, inv)
    write_config(path, settings)
    made.complete = True
    made.save(home)
    inv.out(f"The configuration is {path}.")
    if not options.no_start:
        _start(made, home, inv)
        _await_place(name, inv)
    if not joins:
        _say_what_next(options, name, inv)
    return 0


def _check(options: Namespace, roles: list[str], joins: bool) -> None:
    """See that options fit together.

    :raises UsageError: when they do not.
    """
    if not joins and "cm" not in roles:
        raise UsageError(
            "which pool is to be joined?", hint="--join HOST or --token-file FILE; --role cm for a new one"
        )
    if options.join and options.token_file and not options.join.strip():
        raise UsageError("--join needs the name of a host")
    wrong = [flag for flag in ("domain", "uid_domain", "port") if joins and getattr(options, flag)]
    wrong += [flag for flag in ("fingerprint",) if not joins and getattr(options, flag)]
    if wrong:
        raise UsageError(f"--{wrong[0].replace('_', '-')} {'goes with --role cm' if joins else 'goes with --join'}")
    given = [flag for flag in ("certificate", "key", "ca_file") if getattr(options, flag)]
    if options.ca == "site" and len(given) < 3:
        raise UsageError("--ca site needs --certificate, --key and --ca-file", hint="as the site gives them")
    if options.ca == "own" and given:
        raise UsageError(f"--{given[0].replace('_', '-')} goes with --ca site")
    if options.ca == "site" and options.token_file:
        raise UsageError("a join token is for pools with an authority of their own", hint="use --join and an approval")


def own_name() -> str:
    """This host's full name, by which others reach it.

    :raises UsageError: when it has none that others could use.
    """
    from slotwise.config import detect

    return host_name(detect.host_names()[1])


def _settings(roles: list[str], options: Namespace, inv: Invocation) -> dict[str, str]:
    """What all hosts of a pool have in their configuration."""
    tls = inv.home.root / "tls"
    certificate, key, authorities = tls / "host.pem", tls / "host.key", tls / "ca.pem"
    if options.ca == "site":
        certificate, key, authorities = (inv.path(each) for each in (options.certificate, options.key, options.ca_file))
    return {
        "DAEMON_LIST": ", ".join(["MASTER", *(daemon.upper() for daemon in daemons_of_roles(roles))]),
        "SLOTWISE_LISTEN": "*",
        "AUTH_SSL_SERVER_CERTFILE": str(certificate),
        "AUTH_SSL_SERVER_KEYFILE": str(key),
        "AUTH_SSL_CLIENT_CAFILE": str(authorities),
    }


def _new_pool(options: Namespace, name: str, inv: Invocation) -> dict[str, str]:
    """Make the authority of a new pool and this host's certificate; returns the settings of the central manager."""
    from slotwise.daemon.host_tls import HostTls
    from slotwise.wire import authority
    from slotwise.wire.authority import Authority
    from slotwise.wire.keys import PoolSecrets

    own_domain = name.partition(".")[2]
    uid_domain = options.uid_domain or own_domain or name
    settings = {"CONDOR_HOST": name, "UID_DOMAIN": uid_domain}
    if options.port:
        settings["COLLECTOR_PORT"] = str(options.port)
    PoolSecrets(inv.home).create(uid_domain)
    if options.ca == "site":
        return settings
    now = time.time()
    files = HostTls(inv.home)
    files.create()
    if Authority.read(inv.home) is None:
        domains = [host_name(domain) for domain in options.domain or []] or ([own_domain] if own_domain else [])
        Authority.make(inv.home, uid_domain, domains, now)
    signs = Authority.read(inv.home)
    assert signs is not None
    if not signs.permits(name, now):
        raise UsageError(f"the pool's authority is not for {name}", hint=f"--domain {own_domain or name}, too")
    request = authority.checked(authority.request_for(authority.host_key(files.key), name))
    lifetime_s = inv.knobs().get_float("SLOTWISE_HOST_CERTIFICATE_LIFETIME")
    files.write(files.certificate, signs.issue(request, name, now, lifetime_s))
    files.write(files.authorities, signs.bundle(now))
    return settings


def _leave_former_pool(made: Installation, home: PoolHome, inv: Invocation) -> None:
    """Stop the pool that the host may have been alone, and put the keys of that aside."""
    from slotwise.daemon import lock

    if lock.holder(home, "master") is not None:
        inv.out(f"The pool at {home.root} is stopped, to be part of the other one.")
        _stop(made, home, inv)
    for path in (home.secrets / "signing", home.secrets / "pool.json", home.root / "config.d" / "root.file"):
        made.set_aside(home, path)
    (home.secrets / "host.token").unlink(missing_ok=True)


def has_service(home: PoolHome) -> bool:
    """Whether systemd runs the pool of this home."""
    return is_host_pool(home) and Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None


def _stop(made: Installation, home: PoolHome, inv: Invocation) -> None:
    if has_service(home):
        systemctl("stop", _UNIT)
    personal_pool.down([], replace(inv, stdout=inv.stderr))


def _start(made: Installation, home: PoolHome, inv: Invocation) -> None:
    """Start the daemons, by systemd where the pool is that of the host.

    :raises HostError: when they do not start.
    """
    from slotwise.daemon import lock

    if lock.holder(home, "master") is not None:
        _stop(made, home, inv)
    if has_service(home):
        systemctl("enable", _UNIT)
        systemctl("restart", _UNIT)
        made.service = True
        made.save(home)
    elif personal_pool.up([], inv):
        raise HostError("the daemons did not start", hint="mend what is said above, then `slotwise up`")


def systemctl(*words: str) -> None:
    """Tell systemd.

    :raises HostError: when it refuses.
    """
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True)
    if done.returncode:
        raise HostError(f"systemctl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def _await_place(name: str, inv: Invocation) -> None:
    """Wait until the collector has heard of this host, and say so."""
    from slotwise.client.collector import Collector

    deadline = time.monotonic() + _HEARD_S
    why = "its master has not advertised"
    while time.monotonic() < deadline:
        try:
            with Collector(inv.home.root, env=inv.env) as collector:
                if collector.query("DaemonMaster", f'Name == "{name}"', limit=1):
                    inv.out(f"{name} is in the pool.")
                    return
        except SlotwiseError as error:
            why = str(error)
        time.sleep(0.5)
    inv.err(f"WARNING: the collector has not heard of {name} yet: {why}. See {inv.home.log / 'MasterLog'}.")


def _say_what_next(options: Namespace, name: str, inv: Invocation) -> None:
    from slotwise.daemon.host_tls import HostTls
    from slotwise.wire import authority

    at = f"{name}:{options.port}" if options.port else name
    inv.out()
    if options.ca == "site":
        inv.out("On each further host, with its own certificate of the site:")
        inv.out(f"  slotwise node install --role ep --join {at} --ca site --certificate FILE --key FILE --ca-file FILE")
    else:
        inv.out("The fingerprint of the pool's authority, which each host that joins shows:")
        inv.out(f"  {authority.fingerprint(HostTls(inv.home).authorities.read_text())}")
        inv.out("On each further host (ap: users submit there; ep: jobs run there):")
        inv.out(f"  slotwise node install --role ep --join {at}")
    inv.out("and here, with the code that it shows:")
    inv.out("  slotwise node approve CODE")
