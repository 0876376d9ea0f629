"""Commands that a resident process runs for its own user: with the caller's umask, and for nobody else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.wire import socket_path

from tests.support import host
from tests.support.accounts import host_users
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S


@pytest.fixture
def launcher() -> str:
    path = Path(sys.executable).with_name("slotwise")
    host.need(host.launcher)
    return str(path)


SUBMIT = "executable = /bin/true\nqueue\n"


def test_files_get_the_mask_of_the_caller(make_pool: Callable[[str], Pool], launcher: str, tmp_path: Path) -> None:
    pool = make_pool("DAEMON_LIST = COLLECTOR, SCHEDD\n")
    pool.up()
    pool.until("the command server is there", lambda: (pool.home.run / "commands.sock").exists())
    (tmp_path / "s.sub").write_text(SUBMIT)
    for mask in (0o022, 0o077, 0o027, 0o000):
        name = tmp_path / f"dump.{mask:03o}"
        subprocess.run(
            ["/bin/sh", "-c", f"umask {mask:03o}; exec {launcher} submit -dump {name} s.sub"],
            env=pool.env, cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip
        assert name.stat().st_mode & 0o777 == 0o666 & ~mask, oct(mask)


def test_a_server_of_another_user_gets_no_environment(launcher: str, tmp_path: Path) -> None:
    """A socket where the command server would be: the launcher sends nothing unless the listener is its own user's."""
    with host_users("mallory") as (mallory,):
        home = mallory.home.parent / "pool"
        (home / "run").mkdir(parents=True)
        sock = home / "run" / "commands.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(socket_path.usable(sock))
        listener.listen()
        sock.chmod(0o777)
        heard: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(100_000))

        threading.Thread(target=serve, daemon=True).start()
        said = mallory.run(f"SLOTWISE_HOME={home} SECRET=hidden exec {launcher} --version", check=False)
        assert heard == [b""] or heard == [], said.stderr
        listener.close()


def test_the_home_of_another_user_is_not_used(launcher: str, tmp_path: Path) -> None:
    with host_users("mallory") as (mallory,):
        home = mallory.home / ".slotwise"
        mark = tmp_path / "ran"
        mallory.run(
            f"""mkdir -p {home}/config.d
            printf 'include command : /bin/sh -c "id -u > {mark}"\n' > {home}/config.d/00.conf
            """
        )
        env = {"PATH": os.environ["PATH"], "SLOTWISE_HOME": str(home)}
        for words in (["config", "val", "LOG"], ["q"], ["up"], ["daemon", "schedd"]):
            said = subprocess.run([launcher, *words], env=env, capture_output=True, text=True, timeout=LIMIT_S)
            assert said.returncode != 0 and "belongs to another user" in said.stderr, words
        assert not mark.exists()
