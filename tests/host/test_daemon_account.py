"""Daemons of root's do their own work as an account made for them (decision 18)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.daemon.registry import DAEMONS

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.certificates import Authority
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.ports import free_port
from tests.support.waiting import LIMIT_S

#: Daemon -> whether it is the account's for good, has the account's rights on files, or is root's.
_FOR_GOOD, _FILES, _ROOT = ("account", "account"), ("root", "account"), ("root", "root")
_RUNS_AS = {
    "master": _ROOT,
    "collector": _FOR_GOOD,
    "negotiator": _FOR_GOOD,
    "schedd": _FILES,
    "startd": _FILES,
    "starter": _ROOT,
    "front": _ROOT,
    "defrag": _FOR_GOOD,
    "rooster": _FOR_GOOD,
    "librarian": _FOR_GOOD,
    "web": _FOR_GOOD,
    "shared_port": _FOR_GOOD,
}
_CONFIG = """
UID_DOMAIN = test.example
TRUST_UID_DOMAIN = test.example
SLOTWISE_MIN_UID = 1000
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, DEFRAG, ROOSTER, LIBRARIAN, WEB
SLOTWISE_HTTP_PORT = 0
SLOTWISE_LISTEN = 0.0.0.0
SHARED_PORT_PORT = {port}
AUTH_SSL_SERVER_CERTFILE = {top}/tls/server.pem
AUTH_SSL_SERVER_KEYFILE = {top}/tls/server.key
AUTH_SSL_CLIENT_CAFILE = {top}/tls/ca.pem
NUM_CPUS = 2
MEMORY = 2048
NEGOTIATOR_INTERVAL = 2
MASTER_BACKOFF_CONSTANT = 0
STARTER_ALLOW_RUNAS_OWNER = True
MAX_COLLECTOR_LOG = 2000
MAX_MASTER_LOG = 2000
STARTD_CRON_JOBLIST = WHO
STARTD_CRON_WHO_EXECUTABLE = {top}/who.sh
STARTD_CRON_WHO_MODE = OneShot
"""


pytestmark = host.needs(host.own_name)


def test_each_daemon_has_its_place() -> None:
    """A daemon that is added says what it runs as, here and in decision 18."""
    assert set(_RUNS_AS) == set(DAEMONS)


class _Open:
    """A pool that other accounts can reach, with two of them: the daemons' and a user's."""

    def __init__(self, top: Path, daemon: HostUser, user: HostUser) -> None:
        self.top, self.daemon, self.user = top, daemon, user
        certificate = Authority(top / "tls").issue("server")
        (top / "tls").chmod(0o755)
        os.chown(certificate.with_suffix(".key"), daemon.uid, daemon.gid)  # the web service reads it as the account
        self.config = _CONFIG.format(top=top, port=free_port())
        self.pool = Pool(top / "pool", self.config)
        del self.pool.env["_CONDOR_SLOTWISE_MIN_UID"]
        who = top / "who.sh"
        who.write_text('#!/bin/sh\necho "CronUser = \\"$(id -un)\\""\necho -\n')
        who.chmod(0o755)

    def up(self, *, as_account: bool, more: str = "", groups: str = "") -> None:
        ids = f"CONDOR_IDS = {self.daemon.uid}.{self.daemon.gid}\n" if as_account else ""
        self.pool.config_file.write_text(self.config + ids + more)
        given = ["setpriv", "--groups", groups, "--"] if groups else []
        words = [*(opened() or []), *given, sys.executable, "-m", "slotwise", "up"]
        done = subprocess.run(words, env=self.pool.env, cwd="/", capture_output=True, text=True, timeout=2 * LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr + self.pool.logs()

    def as_user(self, *words: str, who: HostUser | None = None) -> str:
        """Run ``slotwise`` as the user, or as another account."""
        who = who or self.user
        drop = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), "--clear-groups"]
        done = subprocess.run(
            [*(opened() or []), *drop, sys.executable, "-m", "slotwise", *words],
            env=self.pool.env | {"HOME": str(who.home)},
            cwd=self.top / "work",
            capture_output=True,
            text=True,
            timeout=2 * LIMIT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.pool.logs()
        return done.stdout

    def run_job(self, *how: str) -> Path:
        """Have the user submit a job that takes and leaves files, and wait for its end; its log."""
        work = self.top / "work"
        log = work / "job.log"
        log.unlink(missing_ok=True)
        (work / "in.txt").write_text("given\n")
        (work / "job.sub").write_text(
            "executable = /bin/sh\narguments = \"-c 'cat in.txt; id -un; echo made > made.txt'\"\n"
            "transfer_input_files = in.txt\nshould_transfer_files = YES\noutput = job.out\nerror = job.err\n"
            "log = job.log\nrequest_memory = 10M\nqueue\n"
        )
        self.as_user("submit", *how, "job.sub")
        if how:
            done = "JobStatus == 4"
            self.pool.until("the spooled job ends", lambda: self.as_user("q", "-constraint", done, "-af", "ProcId"))
            self.as_user("transfer-data", "-all")
        else:
            self.as_user("wait", "-wait", str(int(LIMIT_S)), "job.log")
        return log

    def runs_as(self, daemon: str) -> tuple[str, str]:
        """The daemon's user, and whose rights on files it has, as ``ps`` tells."""
        pid = self.pool.pid(daemon)
        told = subprocess.run(["ps", "-o", "euid=,fsuid=", "-p", str(pid)], capture_output=True, text=True).stdout
        names = {"0": "root", str(self.daemon.uid): "account"}
        user, files = (names.get(word, word) for word in told.split())
        return user, files


@pytest.fixture
def place() -> Iterator[_Open]:
    with host_users("daemon", "user") as (daemon, user):
        host.need(host.open_installation)
        with tempfile.TemporaryDirectory(prefix="slotwise-account-", dir="/var/tmp") as name:
            top = Path(name)
            top.chmod(0o755)
            work = top / "work"
            work.mkdir()
            os.chown(work, user.uid, user.gid)
            made = _Open(top, daemon, user)
            try:
                yield made
            finally:
                with contextlib.suppress(AssertionError):
                    made.pool.down()
                made.pool.destroy()


def _owner(path: Path) -> int:
    return path.lstat().st_uid


def test_a_pool_of_roots_becomes_one_of_the_account(place: _Open) -> None:
    """An upgrade of a home that was root's; jobs, cron, logs, tokens, restarts and crashes go on as before."""
    pool, home = place.pool, place.pool.home
    place.up(as_account=False)
    assert place.runs_as("collector") == _ROOT
    place.run_job()
    pool.down()
    # What somebody might have put there to be given a file of root's.
    valuable = place.top / "valuable"
    valuable.write_text("root's\n")
    (home.log / "link").symlink_to(valuable)
    os.link(valuable, home.log / "second-name")

    place.up(as_account=True)
    assert {name: place.runs_as(name) for name in DAEMONS} == _RUNS_AS
    assert _owner(valuable) == 0
    uid = place.daemon.uid
    for path in (home.log, home.spool, home.secrets, home.spool / "schedd.sqlite", home.log / "SchedLog"):
        assert _owner(path) == uid, path
    assert all(_owner(path) == uid for path in (*home.log.glob("*Log"), *home.spool.glob("*.db")))
    # What decides what root does stays root's.
    signing = home.secrets / "signing"
    for path in (home.root, home.run, signing, *signing.iterdir(), home.run / "collector.sock"):
        assert _owner(path) == 0, path
    key = next(signing.iterdir())
    assert place.daemon.run(f"cat {key} || echo refused", check=False).stdout == "refused\n"

    # A queue that was root's goes on; a job is its user's, with all its files.
    assert place.as_user("history", "-af", "Owner").split() == [place.user.name]
    place.run_job()
    assert (place.top / "work" / "job.out").read_text() == f"given\n{place.user.name}\n"
    place.run_job("-spool")
    for name in ("job.out", "job.log", "made.txt"):
        assert _owner(place.top / "work" / name) == place.user.uid, name
    found = pool.until("the cron job tells", lambda: pool.run("status", "-af", "CronUser").stdout.split())
    assert set(found) == {place.daemon.name}

    # Logs are put aside, by daemons of each kind.
    for _ in range(12):
        pool.run("reconfig")
    for name in ("CollectorLog", "MasterLog"):
        pool.until(f"{name} is put aside", lambda: (home.log / f"{name}.old").exists())  # noqa: B023
        assert {_owner(home.log / name), _owner(home.log / f"{name}.old")} == {uid}

    # The collector signs with keys that it cannot read any more, and with a new one once it was started anew.
    before = pool.pid("collector")
    pool.run("token", "keys", "--rotate")
    pool.until("the collector runs anew", lambda: pool.pid("collector") not in (None, before))
    pool.until("it answers", lambda: pool.answers("collector"))
    pool.run("token", "fetch", "-authz", "READ")

    pool.run("restart")
    for name in DAEMONS:
        if name != "master":
            pool.kill(name)
    for name in DAEMONS:
        pool.until(f"{name} is there again", lambda: pool.pid(name) and pool.answers(name))  # noqa: B023
    assert {name: place.runs_as(name) for name in DAEMONS} == _RUNS_AS
    pool.kill("master")
    pool.until("the master is there again", lambda: pool.pid("master") and pool.answers("master"))
    place.run_job()
    assert len(place.as_user("history", "-af", "Owner").split()) == 4


#: Tells with which rights, and with which open files, it runs; then it does what the program that is named would do.
_TELLS = """#!/bin/sh
part={top}/told/$(basename $0)
{{ grep -E '^(Uid|Gid|Groups|CapEff|CapPrm):' /proc/self/status; ls /proc/self/fd | sed 's/^/Open:/'; }} > $part.$$
mv $part.$$ $part
case $0 in
*inventory) echo 'DetectedTells = 1' ;;
*cron) printf 'Told = true\n-\n' ;;
esac
"""
_PROGRAMS = """
STARTD_CRON_JOBLIST = TELLS
STARTD_CRON_TELLS_EXECUTABLE = {top}/cron
STARTD_CRON_TELLS_MODE = OneShot
MACHINE_RESOURCE_INVENTORY_TELLS = {top}/inventory
STARTER_DEFAULT_JOB_HOOK_KEYWORD = SITE
SITE_HOOK_PREPARE_JOB = {top}/hook
"""


def test_programs_of_the_administrator_have_no_rights_of_roots(place: _Open) -> None:
    """Root's groups, capabilities and open files stay with the daemons."""
    told = place.top / "told"
    told.mkdir()
    told.chmod(0o1777)
    for name in ("cron", "inventory", "hook"):
        (place.top / name).write_text(_TELLS.format(top=place.top))
        (place.top / name).chmod(0o755)
    place.up(as_account=True, more=_PROGRAMS.format(top=place.top), groups="0,4242")
    groups = Path(f"/proc/{place.pool.pid('starter')}/status").read_text()
    assert "4242" in groups, "the daemons of root have this group"
    place.run_job()
    accounts = {"cron": place.daemon, "inventory": place.daemon, "hook": place.user}
    for name, account in accounts.items():
        said = place.pool.until(f"{name} tells", lambda: (told / name).exists() and (told / name).read_text())  # noqa: B023
        found = {line.partition(":")[0]: line.partition(":")[2].split() for line in said.splitlines()}
        assert found["Uid"] == [str(account.uid)] * 4, name
        assert found["Gid"] == [str(account.gid)] * 4, name
        assert not {"0", "4242"} & set(found["Groups"]), name
        assert {found["CapEff"][0], found["CapPrm"][0]} == {"0" * 16}, name
        # Standard input, output and error, and the directory that is listed.
        assert [line for line in said.splitlines() if line.startswith("Open:")] == [f"Open:{n}" for n in range(4)], name


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ("0.0", "names root"),
        ("4294.", "is not <uid>.<gid>"),
        ("987654321.1", "there is no account with uid 987654321"),
    ],
)
def test_ids_that_cannot_be_stop_the_start(ids: str, why: str, tmp_path: Path) -> None:
    host.need(host.root)
    pool = Pool(tmp_path, f"CONDOR_IDS = {ids}\n")
    done = pool.run("up", check=False)
    assert done.returncode != 0
    assert f"CONDOR_IDS = {ids}" in done.stderr and why in done.stderr
    pool.until("no daemon is left, the refused master's spawner included", lambda: not pool.pids())
