"""What `config check` finds that daemons would refuse at their start."""

from __future__ import annotations

import os
import pwd
import time
from datetime import timedelta
from pathlib import Path

import pytest
from slotwise.config import detect, load
from slotwise.daemon import preflight
from slotwise.home import PoolHome

from tests.support import host
from tests.support.certificates import Authority


def told(tmp_path: Path, text: str, **env: str) -> list[str]:
    file = tmp_path / "condor_config"
    file.write_text(text)
    config = load(str(file), subsystem="MASTER", env=env)
    return [str(problem) for problem in preflight.problems(config, PoolHome(tmp_path / "home"), env, time.time())]


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ("0.0", "names root"),
        ("condor", "is not <uid>.<gid>"),
        ("987654321.1", "there is no account with uid 987654321"),
    ],
)
def test_an_account_that_daemons_cannot_work_as_is_an_error(tmp_path: Path, ids: str, why: str) -> None:
    (problem,) = told(tmp_path, f"# the account\nCONDOR_IDS = {ids}\n")
    assert problem.startswith(f"{tmp_path}/condor_config:2: error: ") and why in problem
    (of_environment,) = told(tmp_path, "", CONDOR_IDS=ids)
    assert why in of_environment


def test_the_account_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "condor_config").write_text("CONDOR_IDS = 65534.65534\n")
    config = load(str(tmp_path / "condor_config"), subsystem="MASTER", env={})
    name = pwd.getpwuid(65534).pw_name
    said = preflight.work_as(config, PoolHome(tmp_path / "home"), {})
    assert said == f"{name} (uid 65534, gid 65534), as CONDOR_IDS says"
    assert preflight.described(None).startswith(pwd.getpwuid(os.geteuid()).pw_name)


def test_a_job_wrapper_that_cannot_be_run_is_told_where_jobs_run(tmp_path: Path) -> None:
    (wrapper := tmp_path / "wrap").write_text("#!/bin/sh\n")
    text = f"USER_JOB_WRAPPER = {wrapper}\n"
    (problem,) = told(tmp_path, text)
    assert problem.startswith(f"{tmp_path}/condor_config:1: warning: USER_JOB_WRAPPER: {wrapper} cannot be run")
    assert told(tmp_path, text + "DAEMON_LIST = MASTER, SCHEDD\n") == []
    wrapper.chmod(0o755)
    assert told(tmp_path, text) == []


def test_files_that_say_who_callers_are_are_read(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("SSL /CN=alice alice@x\nSSL ( x\n")
    (problem,) = told(tmp_path, f"CERTIFICATE_MAPFILE = {tmp_path}/map\n")
    assert "map, line 2: the principal is not a regular expression" in problem
    assert problem.startswith(f"{tmp_path}/condor_config:1: error: ")
    (key := tmp_path / "key").write_text("x")
    key.chmod(0o644)
    (problem,) = told(tmp_path, f"AUTH_SSL_SERVER_KEYFILE = {key}\n")
    assert "others may use the private key" in problem
    (problem,) = told(tmp_path, "ALLOW_READ = +staff\n")
    assert "netgroup +staff" in problem
    assert told(tmp_path, "ALLOW_READ = *\n") == []


def test_transforms_with_which_no_schedd_starts_are_errors(tmp_path: Path) -> None:
    names = "JOB_TRANSFORM_NAMES = Old, Odd, Good\n"
    old, odd = told(
        tmp_path,
        names + "JOB_TRANSFORM_Old = [ set_X = 1; ]\nJOB_TRANSFORM_Odd = SETT x 3\nJOB_TRANSFORM_Good = SET x 3\n",
    )
    assert f"{tmp_path}/condor_config:2: error: JOB_TRANSFORM_Old: the transform is a ClassAd" in old
    assert f"{tmp_path}/condor_config:3: error: JOB_TRANSFORM_Odd:1: SETT is not a valid transform keyword" in odd
    (own,) = told(tmp_path, 'JOB_TRANSFORM_NAMES = Names, Own, Own, Absent\nJOB_TRANSFORM_Own = SET Owner "root"\n')
    assert f"{tmp_path}/condor_config:2: error: JOB_TRANSFORM_Own, line 1: a transform may not change Owner" in own


@host.needs(host.root)
def test_an_account_that_cannot_reach_the_home_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home" / "run").mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    problems = told(tmp_path, "CONDOR_IDS = 65534.65534\n")
    assert len(problems) == 1 and "CONDOR_IDS names" in problems[0] and "cannot reach" in problems[0]


def tls(certificate: Path, key: Path | None = None) -> str:
    key = key or certificate.with_suffix(".key")
    return f"AUTH_SSL_SERVER_CERTFILE = {certificate}\nAUTH_SSL_SERVER_KEYFILE = {key}\n"


@host.needs(host.own_name)
def test_a_certificate_that_is_not_of_this_host_or_its_key_or_this_time_is_an_error(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    mine = authority.issue("mine", ends=timedelta(days=90))
    assert told(tmp_path, tls(mine)) == []
    (problem,) = told(tmp_path, tls(mine, authority.issue("other").with_suffix(".key")))
    assert "is not the key of the certificate in" in problem and ":2: error: " in problem
    (problem,) = told(tmp_path, f"AUTH_SSL_SERVER_CERTFILE = {mine}\n")
    assert "AUTH_SSL_SERVER_CERTFILE is set, and AUTH_SSL_SERVER_KEYFILE is missing" in problem
    assert problem.startswith(f"{tmp_path}/condor_config:1: error: ") and "set AUTH_SSL_SERVER_KEYFILE" in problem
    (problem,) = told(tmp_path, tls(authority.issue("early", begins=timedelta(days=1), ends=timedelta(days=90))))
    assert "counts from" in problem and "error" in problem and "clock" in problem
    (problem,) = told(tmp_path, tls(authority.issue("short", ends=timedelta(days=3, hours=1))))
    assert "ends in 3 days" in problem and "warning" in problem
    (problem,) = told(tmp_path, tls(authority.issue("past", ends=timedelta(seconds=-1))))
    assert "ended 0 days ago" in problem and "error" in problem


@host.needs(host.own_name)
def test_authorities_that_daemons_are_not_signed_by_are_an_error(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "others")
    mine = tls(authority.issue("mine", ends=timedelta(days=90)))
    (both := tmp_path / "both.pem").write_bytes(other.file.read_bytes() + authority.file.read_bytes())
    for good in (authority.file, both, authority.directory / "mine.pem"):
        assert told(tmp_path, f"{mine}AUTH_SSL_CLIENT_CAFILE = {good}\n") == [], good
    (problem,) = told(tmp_path, f"{mine}AUTH_SSL_CLIENT_CAFILE = {other.file}\n")
    assert "none of its authorities has signed" in problem and "condor_config:3: error: " in problem
    (junk := tmp_path / "junk").write_text("x")
    for name in ("AUTH_SSL_CLIENT_CAFILE", "AUTH_SSL_SERVER_CAFILE"):
        (problem,) = told(tmp_path, f"{mine}{name} = {junk}\n")
        assert f"{name} = {junk}: these are not certificates" in problem and "http" not in problem
    assert told(tmp_path, f"{mine}AUTH_SSL_SERVER_CAFILE = {other.file}\n") == [], "it is for callers"


def test_files_that_are_no_certificate_or_key_are_errors(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    mine, other = authority.issue("mine"), authority.issue("other")
    (junk := tmp_path / "junk").write_text("x")
    junk.chmod(0o600)
    (problem,) = told(tmp_path, tls(junk, mine.with_suffix(".key")))
    assert f"CERTFILE: {junk}: this is not a certificate" in problem and ":1: error: " in problem
    first = told(tmp_path, tls(mine, junk))[0]
    assert f"KEYFILE: {junk} is not the key of the certificate" in first and ":2: error: " in first
    theirs = f"AUTH_SSL_CLIENT_CERTFILE = {mine}\nAUTH_SSL_CLIENT_KEYFILE = "
    assert told(tmp_path, f"{theirs}{mine.with_suffix('.key')}\n") == []
    (problem,) = told(tmp_path, f"{theirs}{other.with_suffix('.key')}\n")
    assert "AUTH_SSL_CLIENT_KEYFILE" in problem and ":2: error: " in problem


def test_a_certificate_of_another_host_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Authority(tmp_path / "ca").issue("mine", ends=timedelta(days=90))
    monkeypatch.setattr(detect, "host_names", lambda: ("ep7", "ep7.elsewhere.example"))
    (problem,) = told(tmp_path, tls(mine))
    assert "is a certificate of" in problem and "this host is ep7.elsewhere.example" in problem and "error" in problem


def test_a_name_of_this_host_that_it_cannot_look_up_is_told_where_daemons_are_called_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "ap.nowhere.invalid"
    mine = Authority(tmp_path / "ca").issue("mine", host=name, ends=timedelta(days=90))
    monkeypatch.setattr(detect, "host_names", lambda: ("ap", name))
    (problem,) = told(tmp_path, tls(mine))
    assert f"called by the name {name}, and this host finds no address for it" in problem and "warning" in problem


def test_an_open_port_without_tls_is_an_error(tmp_path: Path) -> None:
    (problem,) = told(tmp_path, "SLOTWISE_LISTEN = 0.0.0.0\nSLOTWISE_ADDRESS_KEY = False\n")
    assert "SLOTWISE_LISTEN = 0.0.0.0 reaches beyond this machine without TLS" in problem and ":1: error: " in problem
    assert told(tmp_path, "SLOTWISE_LISTEN = 0.0.0.0\nSLOTWISE_ADDRESS_KEY = True\n") == []


def test_a_central_manager_without_an_address_is_an_error(tmp_path: Path) -> None:
    (problem,) = told(tmp_path, "CONDOR_HOST = cm.nowhere.invalid\n")
    assert "CONDOR_HOST names cm.nowhere.invalid, and this host finds no address for it" in problem
    (problem,) = told(tmp_path, "COLLECTOR_HOST = cm.nowhere.invalid:9618\n")
    assert problem.startswith(f"{tmp_path}/condor_config:1: error: COLLECTOR_HOST names cm.nowhere.invalid")
    assert told(tmp_path, "CONDOR_HOST = 127.0.0.1\n") == []
    for given in ("cm:99999", "cm:x", "cm:0x1f", "127.0.0.1, cm:"):
        (problem,) = told(tmp_path, f"COLLECTOR_HOST = {given}\n")
        assert f"COLLECTOR_HOST: {given.rpartition(' ')[2]} is no address" in problem
    for given in ("127.0.0.1:9618", "::1", "[::1]:9618", "<127.0.0.1:9618?addrs=127.0.0.1-9618>"):
        assert told(tmp_path, f"COLLECTOR_HOST = {given}\n") == []
