"""``slotwise node upgrade``: another version of the program, on this host or on all of a pool, while jobs run on."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise import __version__
from slotwise.cli.common.parser import Parser
from slotwise.cli.host.token_options import lifetime_s
from slotwise.cli.pool.node import install as installing
from slotwise.cli.pool.node.roster import admitted
from slotwise.errors import HostError, NotFoundError, SlotwiseError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.wire.gen import node_pb2

_SSH = "ssh -o BatchMode=yes"
#: How long hosts may take to find a collector that has started anew, and how often it is asked, in seconds.
_HEARD_S, _LOOK_S = 60.0, 0.5
#: What installs packages, by the ends of their names.
_TOOLS = {
    ".deb": ["apt-get", "install", "-y", "--reinstall", "--allow-downgrades"],
    ".rpm": ["rpm", "-U", "--oldpackage", "--replacepkgs"],
}


def upgrade(args: list[str], inv: Invocation) -> int:
    """Install a package here, or on hosts one after the other; or say what is to be done on one."""
    parser = Parser(
        inv,
        "node upgrade",
        "With --package alone install another version on this host: running jobs go on. With --package and HOSTs or "
        "--all do that on these hosts by ssh, one after the other: central manager, access points, execution points; "
        "each has to run the new version before the next one is begun, and the first that fails is the last. The same "
        "command goes on from there. With a HOST alone say what is to be done there.",
    )
    parser.add_argument("names", nargs="*", metavar="HOST")
    parser.add_argument("--all", "-all", action="store_true", help="all hosts of the pool")
    parser.add_argument(
        "--package", "-package", action="append", metavar="FILE", help="a .deb or .rpm; one of each in a mixed pool"
    )
    parser.add_argument("--drain", "-drain", action="store_true", help="empty each execution point before")
    parser.add_argument("--again", "-again", action="store_true", help="also hosts that run the version already")
    parser.add_argument("--to", "-to", metavar="VERSION", help="the package's version, where this host cannot tell")
    parser.add_argument("--wait", "-wait", default="10m", metavar="TIME", help="how long a host may take (10m)")
    parser.add_argument(
        "--ssh", "-ssh", default=_SSH, metavar="COMMAND", help=f"takes a host and a command line ({_SSH})"
    )
    parser.add_argument("--sudo", "-sudo", action="store_true", help="become root there by sudo")
    parser.add_argument("--dry-run", "-dry-run", action="store_true", help="say which hosts, in which order")
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="the collector of another pool")
    options = parser.take(args)
    if options is None:
        return 0
    packages = [_checked(inv.path(name)) for name in options.package or []]
    if options.all and options.names:
        raise UsageError("--all chooses the hosts itself", hint="leave the names away")
    if packages and not options.all and [name.lower() for name in options.names] in ([], [installing.own_name()]):
        if len(packages) > 1:
            raise UsageError("one package is installed on this host", hint="--all, or hosts, for several")
        return _install(packages[0], inv)
    if packages:
        return _in_turn(options, packages, inv)
    if len(options.names) != 1:
        raise UsageError("which package?", hint="--package FILE, on the host itself or with hosts or --all")
    return _explain(options.names[0], inv.aimed(options.pool))


def _explain(name: str, inv: Invocation) -> int:
    found = _admitted([name], inv)[0]
    inv.out(f"{found.name} runs {found.version or 'an unknown version'}; this host has {__version__}.")
    inv.out("With the package of the new version there (running jobs go on):")
    inv.out("  slotwise node upgrade --package slotwise_VERSION_amd64.deb")
    inv.out("or here, where ssh leads to it:")
    inv.out(f"  slotwise node upgrade {found.name} --package slotwise_VERSION_amd64.deb")
    inv.out("Central manager first, then access points, then execution points: --all keeps to that.")
    return 0


def _admitted(names: list[str], inv: Invocation) -> list[node_pb2.Node]:
    """The hosts of these names; all without any.

    :raises NotFoundError: when the pool has admitted no such host.
    """
    found = admitted(inv)
    missing = [name for name in names if name.lower() not in found]
    if missing:
        raise NotFoundError(f"the pool has admitted no host {missing[0]}", hint="`slotwise node list` shows them")
    return [found[name.lower()] for name in names] or list(found.values())


def _in_turn(options: Namespace, packages: list[Path], inv: Invocation) -> int:
    """Upgrade hosts one after the other.

    :raises HostError: at the first that fails.
    """
    from slotwise.cli.pool.node import rolling

    aimed = inv.aimed(options.pool)
    version = options.to or next(filter(None, map(rolling.version_of, packages)), "")
    if not version:
        raise UsageError("this host cannot tell which version the package has", hint="--to VERSION")
    how = rolling.How(
        packages, version, shlex.split(options.ssh), options.sudo, options.drain, lifetime_s(options.wait)
    )
    hosts = rolling.in_order(_admitted(options.names, aimed))
    wanted = [node for node in hosts if options.again or node.version != version or node.state == "absent"]
    absent = [node.name for node in wanted if node.state == "absent"]
    todo = [node for node in wanted if node.state != "absent"]
    if passed := len(hosts) - len(wanted):
        inv.out(f"{passed} hosts run {version} already.")
    if options.dry_run:
        for node in todo:
            inv.out(f"{node.name} ({', '.join(node.roles)}): {node.version or '?'} -> {version}")
    rolls = rolling.Rolling(how, aimed)
    for done, node in enumerate([] if options.dry_run else todo):
        try:
            if node.name != installing.own_name():
                rolls.upgrade(node)
                continue
            rolls.upgrade(node, lambda: _install(_own(packages), inv))
            if rest := [each.name for each in todo[done + 1 :]]:
                _await_ads(rest, min(how.wait_s, _HEARD_S), aimed)
                # What this process would load from now on is of the new version: that one goes on.
                return subprocess.run([*_program(inv), *_words(options, rest, inv)], env=inv.env).returncode
        except SlotwiseError as error:
            left = ", ".join(each.name for each in todo[done:])
            raise HostError(
                f"{error.message}\nNot upgraded: {left}.",
                hint=error.hint or "mend that, and run the same command again: hosts that are done are passed over",
            ) from None
    if absent:
        inv.err(f"passed over, as nothing is heard of them: {', '.join(absent)}")
    return 1 if absent else 0


def _await_ads(names: list[str], limit_s: float, inv: Invocation) -> None:
    """Wait until the collector, which has started anew, has heard of hosts again, as far as they live."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and any(node.state == "absent" for node in _admitted(names, inv)):
        time.sleep(_LOOK_S)


def _own(packages: list[Path]) -> Path:
    """The package for this host."""
    kind = ".deb" if shutil.which("dpkg") is not None else ".rpm"
    return next((path for path in packages if path.suffix == kind), packages[0])


def _program(inv: Invocation) -> list[str]:
    found = shutil.which("slotwise", path=inv.env.get("PATH"))
    return [found] if found is not None else [sys.executable, "-m", "slotwise"]


def _words(options: Namespace, names: list[str], inv: Invocation) -> list[str]:
    """The same command for these hosts."""
    words = ["node", "upgrade", *names, "--ssh", options.ssh, "--wait", options.wait]
    for name in options.package:
        words += ["--package", str(inv.path(name))]
    for name in ("to", "pool"):
        words += [f"--{name}", value] if (value := getattr(options, name)) else []
    return words + [f"--{name}" for name in ("drain", "again", "sudo") if getattr(options, name)]


def _checked(package: Path) -> Path:
    """A package that there is.

    :raises UsageError: when there is none, or it is none.
    """
    if not package.is_file():
        raise UsageError(f"there is no package {package}")
    if package.suffix not in _TOOLS:
        raise UsageError(f"{package} is neither a .deb nor an .rpm")
    return package


def _install(package: Path, inv: Invocation) -> int:
    """Install a package; its scripts have the daemons started again."""
    words = _TOOLS[package.suffix]
    if shutil.which(words[0]) is None:
        raise HostError(f"this host has no {words[0]}, and cannot install {package.name}")
    inv.out(f"{' '.join([*words, str(package)])}")
    inv.stdout.flush()
    if status := subprocess.run([*words, str(package)]).returncode:
        raise HostError(f"{words[0]} ended with status {status}; the former version runs on")
    renew = Path("/usr/lib/slotwise/renew-daemons")
    if not Path("/run/systemd/system").is_dir() and renew.exists():
        subprocess.run([str(renew)], check=False)  # under systemd the package does that
    return 0
