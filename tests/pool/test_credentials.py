"""Tokens in jobs: where they lie, that they are renewed while a job runs, and what holds a job that lacks one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jwt
import pytest

from tests.pool.test_url_transfers import PLUGIN
from tests.support.accounts import host_users
from tests.support.pool import Pool

_OURS = Path(__file__).parents[2] / "compat/src"
KNOBS = """
use feature : oauth
SEC_CREDENTIAL_DIRECTORY_OAUTH = {0}/oauth.d
LOCAL_CREDMON_PROVIDER_NAME = scitokens
LOCAL_CREDMON_TOKEN_AUDIENCE = https://a
LOCAL_CREDMON_TOKEN_LIFETIME = 2
LOCAL_CREDMON_PRIVATE_KEY = {0}/private.pem
LOCAL_CREDMON_PUBLIC_KEY = {0}/public.pem
SEC_CREDENTIAL_REFRESH = 1
FILETRANSFER_PLUGINS = {0}/debug.sh
MOUNT_UNDER_SCRATCH =
EXECUTE = {0}/execute
"""


@pytest.fixture
def place(open_directory: Path) -> Path:
    """A directory that jobs of other accounts reach, with a plugin that says what it knows."""
    open_directory.chmod(0o777)
    (open_directory / "debug.sh").write_text(PLUGIN)
    (open_directory / "debug.sh").chmod(0o755)
    (open_directory / "execute").mkdir(mode=0o755)
    return open_directory


@pytest.fixture
def pool(make_pool: Callable[[str], Pool], place: Path) -> Pool:
    made = make_pool(KNOBS.format(place))
    made.up()
    return made


def submit(pool: Pool, place: Path, program: str, *commands: str) -> str:
    """Submit a job that runs a script; its id."""
    script = place / "job.sh"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    text = [
        f"executable = {script}",
        "should_transfer_files = yes",
        "output = out",
        "error = err",
        "log = l",
        *commands,
    ]
    (place / "s.sub").write_text("\n".join([*text, "queue", ""]))
    return pool.run("submit", "-terse", "s.sub", cwd=place).stdout.split()[0]


def test_a_job_has_its_tokens_and_they_are_renewed_while_it_runs(pool: Pool, place: Path) -> None:
    (place / "token").write_text("stored-token")
    pool.run("store-cred", "add-oauth", "-s", "box", "-H", "read", "-i", "token", "-P", cwd=place)
    first = '"$_CONDOR_CREDS/scitokens.use"'
    program = (
        'stat -c "%a %u %n" "$_CONDOR_CREDS" "$_CONDOR_CREDS"/*; id -u; cat "$_CONDOR_CREDS/box_read.use"; echo\n'
        f"cp {first} b; while cmp -s {first} b; do sleep 0.2; done; cat b; echo; cat {first}; echo; rm b"
    )
    submit(
        pool, place, program, "use_oauth_services = scitokens, box", "box_oauth_permissions_read =",
        "transfer_input_files = box.read+debug://env/known",
        'transfer_output_remaps = "known = known"', "transfer_output_files = known",
    )  # fmt: skip
    pool.run("wait", "l", cwd=place)
    *modes, uid, stored, before, after = (place / "out").read_text().splitlines()
    names = {line.split()[2].rpartition("/")[2]: line.split()[:2] for line in modes}
    assert names.pop("creds") == ["700", uid]
    assert names == {"scitokens.use": ["600", uid], "box_read.use": ["600", uid]} and stored == "stored-token"
    tokens = [json.loads(text)["access_token"] for text in (before, after)]
    ends = [jwt.decode(token, options={"verify_signature": False})["exp"] for token in tokens]
    assert ends[0] <= ends[1] and tokens[0] != tokens[1]
    assert "_CONDOR_CREDS=" in (place / "known").read_text(), "plugins find them, too"
    renewals = (pool.home.log / "CredMonOAuthLog").read_text().count("Successfully renewed SciToken for user")
    assert renewals >= 2
    pool.until("the run's directory is gone", lambda: not list((place / "execute").glob("*/creds")))
    pool.down()
    for path in pool.home.log.rglob("*"):
        text = path.read_bytes() if path.is_file() else b""
        assert b"stored-token" not in text and not any(token.encode() in text for token in tokens), path


def test_a_job_without_its_token_is_held_and_runs_once_it_is_stored(pool: Pool, place: Path) -> None:
    (place / "box").write_text("stored-token")
    pool.run("store-cred", "add-oauth", "-s", "box", "-i", "box", "-P", cwd=place)
    job = submit(pool, place, 'cat "$_CONDOR_CREDS/box.use"', "use_oauth_services = box", "hold = true")
    pool.run("store-cred", "delete-oauth", "-s", "box")
    pool.run("release", job)

    def held() -> str:
        ad = pool.json("q", job)[0]
        return str(ad.get("HoldReason")) if ad.get("HoldReasonCode") == 4 else ""

    reason = pool.until("the job is held", held)
    assert reason.startswith("Job credentials are not available: ") and "htcondor credential add oauth2" in reason
    pool.run("store-cred", "add-oauth", "-s", "box", "-i", "box", "-P", cwd=place)
    pool.run("release", job)
    pool.run("wait", "l", cwd=place)
    assert (place / "out").read_text() == "stored-token"


def test_a_restarted_schedd_goes_on_renewing(pool: Pool, place: Path) -> None:
    token = '"$_CONDOR_CREDS/scitokens.use"'
    program = f"cp {token} b; while [ ! -e {place}/go ]; do sleep 0.2; done; cp {token} b\n"
    program += f"while cmp -s {token} b; do sleep 0.2; done; rm b; echo renewed"
    job = submit(pool, place, program, "use_oauth_services = scitokens")
    pool.until("the job runs", lambda: pool.json("q", job)[0]["JobStatus"] == 2)
    pool.run("restart", "schedd")
    (place / "go").touch()
    pool.run("wait", "l", cwd=place)
    assert (place / "out").read_text() == "renewed\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to be another account")
def test_other_accounts_of_the_host_read_no_token(pool: Pool, place: Path) -> None:
    job = submit(pool, place, f"while [ ! -e {place}/go ]; do sleep 0.2; done", "use_oauth_services = scitokens")
    pool.until("the job runs", lambda: pool.json("q", job)[0]["JobStatus"] == 2)
    with host_users("cred") as (other,):
        here = other.run(f"ls -d {place}/execute/*/creds {place}/oauth.d")
        assert len(here.stdout.split()) == 2, "it sees where they are"
        token, kept = f"{place}/execute/*/creds", f"{place}/oauth.d"
        for what in (
            f"ls {token}/",
            f"cat {token}/scitokens.use",
            f"ls {kept}/",
            f"cat {kept}/*/scitokens.use",
            f"cat {place}/private.pem",
            f"touch {kept}/x",
        ):
            assert other.run(what, check=False).returncode != 0, what
    (place / "go").touch()
    pool.run("wait", "l", cwd=place)


_PROGRAM = """
import htcondor2 as h, classad2, json
credd, oauth = h.Credd(), h.CredTypes.OAuth
told = {"none": credd.query_user_service_cred(oauth, None)}
credd.add_user_service_cred(oauth, b"stored-token", "box", "read")
credd.add_user_service_cred(oauth, "made with", "scitokens")
told["token"] = credd.get_oauth2_credential("box", "read")
told["files"] = sorted(classad2.parseOne(credd.query_user_service_cred(oauth, None)))
told["one"] = sorted(classad2.parseOne(credd.query_user_service_cred(oauth, "box", "read")))
services = [classad2.ClassAd({"Service": "box", "Handle": "read"}), classad2.ClassAd({"Service": "scitokens"})]
told["present"] = [credd.check_user_service_creds(oauth, services).present,
                   credd.check_user_service_creds(oauth, [classad2.ClassAd({"Service": "nope"})]).error]
credd.delete_user_service_cred(oauth, "box", "read")
try:
    h.Submit("executable = /bin/true\\nuse_oauth_services = box").issue_credentials()
except h.HTCondorException as error:
    told["missing"] = str(error)
told["issued"] = h.Submit("executable = /bin/true\\nuse_oauth_services = scitokens").issue_credentials()
credd.delete_user_service_cred(oauth, None)
told["left"] = credd.query_user_service_cred(oauth, None)
print(json.dumps(told))
"""


def test_the_bindings_have_the_same(pool: Pool) -> None:
    env = {**pool.env, "PYTHONPATH": f"{_OURS}:{pool.env['PYTHONPATH']}"}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["none"] is None and told["left"] is None and told["token"] == "stored-token"
    assert told["files"] == ["box_read.use", "fully_qualified_user", "scitokens.top", "scitokens.use"]
    assert told["one"] == ["box_read", "fully_qualified_user"]
    assert told["present"][0] is True and "'nope' of unknown type is missing" in told["present"][1]
    assert "Credential 'box' of unknown type is missing" in told["missing"] and told["issued"] is None
