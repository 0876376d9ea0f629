"""The process that keeps a glide-in: brings its daemons up, watches over them, and leaves nothing behind.

`slotwise glidein` starts it in a session of its own and holds its standard input open. So each sees the other die: when
the command is killed, the guard ends the daemons and their jobs; when the guard is killed, the command does. Both adopt
what loses its parent below them (PR_SET_CHILD_SUBREAPER), and kill in the end what is still there.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import grpc

from slotwise import whole_file
from slotwise.config import load
from slotwise.daemon import lock, process
from slotwise.errors import ConfigError, DeniedError, SlotwiseError
from slotwise.glidein import plan
from slotwise.glidein.logs import LogFollower
from slotwise.glidein.order import ENDED, FAILED, HOME, NOT_JOINED, Order
from slotwise.glidein.plan import Schedule
from slotwise.glidein.sweep import descendants, kill_descendants
from slotwise.home import PoolHome
from slotwise.master import startup
from slotwise.table import unpack_ads
from slotwise.wire import address, channel, tls
from slotwise.wire.credential import TokenCredential, UserCredential, no_token, places
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, daemon_pb2_grpc, token_pb2_grpc
from slotwise.wire.keys import PoolSecrets, PoolTrust
from slotwise.wire.status import to_error
from slotwise.wire.token import write_secret

_CALL_S, _AGAIN_S, _LOOK_S = 10.0, 2.0, 0.5
#: How long a spawner may take to make a new master in place of one that died.
_REVIVAL_S = 20.0
#: A fast end has a limit of its own in each daemon; what is there after this is killed.
_FAST_S = 45.0


class Guard:
    """One glide-in. ``say`` writes a line where the batch system shows it."""

    def __init__(self, order: Order, env: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._order = order
        self._say = say
        self.home = PoolHome(Path(order.directory) / HOME)
        self._config = self.home.root / "condor_config"
        self._env = {
            **{name: value for name, value in env.items() if not name.startswith(("_CONDOR_", "SLOTWISE_"))},
            "SLOTWISE_HOME": str(self.home.root),
            "CONDOR_CONFIG": str(self._config),
        }
        self._schedule = Schedule.until(order.ends_at, time.time(), order.reserve_s)
        self._logs = LogFollower(self.home.log, write) if order.shows_logs else None
        self._signals: list[int] = []
        self._orphaned = False
        self._stopping = ""
        self._fast_since = 0.0
        self._master = 0
        self._statuses: dict[int, int] = {}

    # ---- the parts of its life

    def run(self) -> int:
        """The whole life; returns the status for the command."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, lambda which, _frame: self._signals.append(which))
        try:
            self._write()
            try:
                self._require_place()
            except SlotwiseError as error:
                self._say(f"this glide-in has no place in the pool: {error}")
                return NOT_JOINED
            if self._signals or self._orphaned:
                return ENDED
            if not self._bring_up():
                return FAILED
            return self._watch()
        finally:
            self._sweep()

    def _write(self) -> None:
        """Write the configuration as the schedule is now; daemons read it whole or not at all."""
        self.home.root.mkdir(parents=True, exist_ok=True)
        whole_file.write(self._config, plan.configuration(self._order.settings, self._schedule), lasts=False)

    def _require_place(self) -> None:
        """Fetch what the pool trusts, which shows that the token is good.

        :raises SlotwiseError: the central manager does not answer in time, or refuses.
        """
        self.home.create()
        secrets = PoolSecrets(self.home)
        write_secret(secrets.bearer_file, self._order.token + "\n")
        config = load(None, subsystem="MASTER", env=self._env, home=self.home)
        channel.use_tls(tls.client_credentials(config), cleartext=config.get_bool("SLOTWISE_ALLOW_CLEARTEXT"))
        target, deadline = self._collector(), time.monotonic() + self._order.join_s
        places.name(target)
        while True:
            try:
                shown = TokenCredential(self._order.token).metadata(target)
                with channel.open_blocking(target) as opened:
                    reply = token_pb2_grpc.TokensStub(opened).Sync(common_pb2.Empty(), metadata=shown, timeout=_CALL_S)
                secrets.write_trust(PoolTrust.of_text(reply.trust))
                return
            except grpc.RpcError as failure:
                error = to_error(failure, peer=f"the collector at {target}")
                if isinstance(error, DeniedError) or time.monotonic() > deadline or self._wanted():
                    raise error from None
            self._wait(_AGAIN_S)

    def _collector(self) -> str:
        found = address.configured_collector(load(None, subsystem="MASTER", env=self._env, home=self.home))
        if found is None:
            raise ConfigError("the pool is on this very host: name its collector with a port, as localhost:9618")
        return found

    def _bring_up(self) -> bool:
        try:
            result = startup.bring_up(self.home, self._env, str(self._config))
        except SlotwiseError as error:
            self._say(f"the daemons cannot run: {error}")
            return False
        if result.failed:
            self._say(f"the daemons did not come up: {result.error}")
            for name, tail in result.log_tails:
                for line in tail:
                    self._say(f"{name}: {line}")
            return False
        self._master = lock.holder(self.home, "master") or 0
        settings = self._order.settings
        self._say(f"{settings.name} is in the pool of {settings.pool.partition('?')[0]}")
        return True

    def _watch(self) -> int:
        advertised = False
        deadline = time.monotonic() + self._order.join_s
        while True:
            if self._logs is not None:
                self._logs.look()
            self._reap()
            if not self._master_lives():
                if self._logs is not None:
                    self._logs.look()
                status = self._statuses.get(self._master, 0)
                if self._stopping or not status:
                    self._say("ended" if self._stopping else "ended: no job has claimed it, or it was told to")
                    return ENDED
                self._say(f"the master ended: {process.describe_exit(status)}")
                return FAILED
            if not advertised and not self._stopping:
                advertised = self._is_advertised()
                if not advertised and time.monotonic() > deadline:
                    self._say("its ads do not reach the pool: see the lines of MasterLog and StartLog above")
                    self._stop("fast", "it is not in the pool")
                    self._await_end()
                    return NOT_JOINED
            self._act()
            self._wait(_LOOK_S if advertised else _AGAIN_S / 2)

    def _act(self) -> None:
        """Do what signals and the clock ask for."""
        now = time.time()
        if self._orphaned:
            self._stop("fast", "the command has been killed")
        while self._signals:
            number = self._signals.pop(0)
            if self._stopping == "graceful":
                self._stop("fast", f"a second signal ({signal.Signals(number).name})")
            elif not self._stopping:
                self._schedule = self._schedule.after_notice(now, self._order.notice_s)
                self._retire(f"{signal.Signals(number).name}: jobs have {self._order.notice_s:g} s")
        schedule = self._schedule
        if schedule.drains_at is not None and now >= schedule.drains_at and not self._stopping:
            self._stop("graceful", "its end is near: no further job starts")
        if schedule.ends_at is not None and now >= schedule.ends_at - plan.CLEAN_UP_S / 2 and self._stopping:
            self._stop("fast", "its time is up")
        if self._stopping == "fast" and time.monotonic() > self._fast_since + _FAST_S:
            self._kill_all()

    def _retire(self, why: str) -> None:
        """An orderly end by the schedule as it is now."""
        self._write()
        with contextlib.suppress(grpc.RpcError, SlotwiseError):
            target = address.lookup(self.home, "startd").local
            with channel.open_blocking(target) as opened:
                daemon_pb2_grpc.DaemonStub(opened).Reconfig(
                    common_pb2.Empty(), metadata=UserCredential({}, no_token).metadata(target), timeout=_CALL_S / 2
                )
        self._stop("graceful", why)

    def _stop(self, mode: str, why: str) -> None:
        if self._stopping in (mode, "fast"):
            return
        self._say(f"ends ({mode}): {why}")
        self._stopping = mode
        if mode == "fast":
            self._fast_since = time.monotonic()
        if (master := lock.holder(self.home, "master")) is not None:
            process.send(master, signal.SIGTERM if mode == "graceful" else signal.SIGQUIT)

    def _await_end(self) -> None:
        deadline = time.monotonic() + _FAST_S
        while self._master_lives() and time.monotonic() < deadline:
            self._wait(_LOOK_S)
            self._reap()

    # ---- what it sees

    def _wanted(self) -> bool:
        return bool(self._signals) or self._orphaned

    def _wait(self, seconds: float) -> None:
        """Wait, or until the command dies or a signal comes."""
        if self._orphaned:
            time.sleep(min(seconds, _LOOK_S))
            return
        with contextlib.suppress(InterruptedError):
            ready, _, _ = select.select([sys.stdin], [], [], seconds)
            if ready and not os.read(sys.stdin.fileno(), 4096):
                self._orphaned = True

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._statuses[found[0]] = found[1]

    def _master_lives(self) -> bool:
        """Whether there is a master, or a spawner that makes a new one."""
        deadline = time.monotonic() + _REVIVAL_S
        while True:
            holder = lock.holder(self.home, "master")
            if holder is not None:
                self._master = holder
                return True
            self._reap()
            if self._stopping or lock.holder(self.home, "spawner") is None or time.monotonic() > deadline:
                return False
            time.sleep(0.1)

    def _is_advertised(self) -> bool:
        """Whether the collector has a slot of this glide-in."""
        name = self._order.settings.name
        query = common_pb2.AdQuery(
            kind="Machine", constraint=f"FileSystemDomain == {plan.quoted(name)}", projection=["Name"], limit=1
        )
        try:
            target = self._collector()
            shown = TokenCredential(self._order.token).metadata(target)
            with channel.open_blocking(target) as opened:
                stub = collector_pb2_grpc.CollectorStub(opened)
                for chunk in stub.Query(query, metadata=shown, timeout=_CALL_S):
                    for ad in unpack_ads(chunk.data) if chunk.data else ():
                        self._say(f"advertises {ad.get('Name')}")
                        return True
        except (grpc.RpcError, SlotwiseError):
            pass  # the daemons' logs say what is wrong
        return False

    # ---- the end

    def _kill_all(self) -> None:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(DeniedError):
                process.send(pid, signal.SIGKILL)

    def _sweep(self) -> None:
        """Kill what is left, and remove the directory."""
        kill_descendants()
        shutil.rmtree(self._order.directory, ignore_errors=True)


def write(line: str) -> None:
    """Write a line to where the batch system shows it; it may be gone."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def say(text: str) -> None:
    """Write a line of the glide-in's own."""
    write(f"{time.strftime('%m/%d/%y %H:%M:%S')} glidein: {text}")


def main() -> int:
    """Read the order from standard input, and keep the glide-in."""
    process.adopt_orphans()
    order = Order.of_text(sys.stdin.readline())
    return Guard(order, os.environ, say).run()


if __name__ == "__main__":
    sys.exit(main())
