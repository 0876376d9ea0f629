"""SYSTEM_ON_VACATE_COOL_DOWN and SYSTEM_MAX_RELEASES on a live pool; the figures are those of HTCondor 25.14.1."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.pool import Pool

#: Root's jobs do not run on the access point, where root's tests have them be nobody's.
AS_OTHER = 'my.Owner = "nobody"\ninitialdir = /\n' if os.geteuid() == 0 else ""
MAY = "UID_DOMAIN = here.test\nQUEUE_SUPER_USERS = root\nQUEUE_SUPER_USER_MAY_IMPERSONATE = nobody\n"
SLEEPS = "executable = /bin/sleep\narguments = 3600\n"


def submit(pool: Pool, text: str) -> None:
    (pool.root / "it.sub").write_text(f"{text}\nrequest_memory = 10\nqueue\n")
    pool.run("submit", str(pool.root / "it.sub"))


def jobs(pool: Pool) -> dict[int, dict[str, Any]]:
    return {ad["ClusterId"]: ad for ad in pool.json("q")}


def test_a_job_that_did_not_come_to_its_end_cools_down_for_as_long_as_the_administrator_says(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool("NUM_CPUS = 4\nNEGOTIATOR_INTERVAL = 1\nSYSTEM_ON_VACATE_COOL_DOWN = CoolFor\n")
    pool.up()
    for text in (
        f"{SLEEPS}my.CoolFor = 3000",
        f"{SLEEPS}my.CoolFor = 5",
        SLEEPS,
        "executable = /bin/true\ntransfer_output_files = nosuch\nmy.CoolFor = 2500",  # would be held: code 12
        "executable = /bin/false\non_exit_remove = ExitCode == 0\nmy.CoolFor = 2500",
    ):
        submit(pool, text)
    pool.until("three execute", lambda: sum(ad["JobStatus"] == 2 for ad in jobs(pool).values()) == 3)
    pool.run("vacate-job", "1", "2", "3")
    pool.until("four were sent back", lambda: sum("JobCoolDownExpiration" in ad for ad in jobs(pool).values()) == 4)
    found = jobs(pool)
    length = {number: ad["JobCoolDownExpiration"] - ad["LastVacateTime"] for number, ad in found.items() if number != 3}
    assert length == {1: 3000, 2: 20, 4: 2500, 5: 2500}
    assert [found[number]["NumJobCoolDowns"] for number in (1, 2, 4, 5)] == [1, 1, 1, 1]
    assert (found[4]["JobStatus"], found[4]["VacateReasonCode"]) == (1, 12)
    assert not found[4].get("NumHolds")
    assert "Ic" in pool.run("q", "-nobatch", "1").stdout
    assert "It is in cool-down until " in pool.run("analyze", "1").stdout
    pool.run("restart", "--keep", "schedd")
    pool.until("the queue is back", lambda: len(jobs(pool)) == 5)
    assert jobs(pool)[1]["JobStatus"] == 1 and jobs(pool)[1]["NumShadowStarts"] == 1


def test_a_job_starts_again_when_its_cool_down_is_over(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(
        "NUM_CPUS = 1\nNEGOTIATOR_INTERVAL = 1\nSYSTEM_COOLDOWN_DURATION = 1\n"
        "SYSTEM_ON_VACATE_COOL_DOWN = NumJobCoolDowns =?= undefined ? 1 : 0\n"
    )
    pool.up()
    submit(pool, "executable = /bin/false\non_exit_remove = NumJobCompletions > 1")
    pool.until("it has run twice", lambda: not pool.json("q"))
    (ad,) = pool.json("history")
    assert (ad["NumJobCoolDowns"], ad["NumJobStarts"]) == (1, 2)


#: Expressions of SYSTEM_ON_VACATE_COOL_DOWN, and the cool-down that HTCondor has from each, in seconds: what the end of
#: the run changes in the job is there already, fractions are dropped, and of other types than numbers none is taken.
_OF_VACATED_JOBS = {
    "2.7": 3,
    "9.7": 9,
    "true": 3,
    '"abc"': None,
    "-5": None,
    "VacateReasonCode": 1022,
    "NumJobCoolDowns =?= undefined ? 77 : 0": 77,
    "NumVacates * 100": 100,
    "NumVacatesByReason =?= undefined ? 100 : 200": 200,
    "LastVacateTime =?= undefined ? 0 : 70": 70,
    "RemoteHost =?= undefined ? 100 : (LastRemoteHost =?= undefined ? 200 : 300)": 200,
    "9e9": 9_000_000_000,
}
_OF_FAILED_JOBS = {
    "ExitCode * 100 + NumJobCompletions * 10": 110,
    "(VacateReasonCode ?: 7) * 100 + (ExitBySignal ? 20 : 10)": 710,
}


def test_the_expression_sees_the_job_as_in_htcondor(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(
        "NUM_CPUS = 12\nNEGOTIATOR_INTERVAL = 1\nSYSTEM_ON_VACATE_COOL_DOWN = CoolFor\nSYSTEM_COOLDOWN_DURATION = 3\n"
        f"SCHEDULER_UNIVERSE_COOL_DOWN_DURATION = 500\n{MAY}"
    )
    pool.up()
    wanted: dict[int, int | None] = {}
    for text, length in _OF_VACATED_JOBS.items():
        submit(pool, f"{SLEEPS}my.CoolFor = {text}")
        wanted[len(wanted) + 1] = length
    vacated = len(wanted)
    pool.until("all execute", lambda: all(ad["JobStatus"] == 2 for ad in jobs(pool).values()))
    pool.run("vacate-job", *map(str, wanted))
    pool.until("all have been vacated", lambda: all("NumVacates" in ad for ad in jobs(pool).values()))
    failing = "executable = /bin/false\non_exit_remove = ExitCode == 0\n"
    for text, length in _OF_FAILED_JOBS.items():
        submit(pool, f"{failing}my.CoolFor = {text}")
        wanted[len(wanted) + 1] = length
    submit(pool, f"{failing}{AS_OTHER}universe = local\nmy.CoolFor = 2500")
    submit(pool, f"{failing}{AS_OTHER}universe = scheduler\nmy.CoolFor = 2500")
    wanted |= {len(wanted) + 1: 2500, len(wanted) + 2: 500}
    cooled = {number for number, length in wanted.items() if length is not None}
    pool.until("they cool", lambda: {n for n, ad in jobs(pool).items() if ad.get("NumJobCoolDowns")} >= cooled)
    found = jobs(pool)
    for number, length in wanted.items():
        end = found[number].get("JobCoolDownExpiration")
        if number <= vacated or length is None:
            assert (None if end is None else end - found[number]["LastVacateTime"]) == length, number
        else:
            assert 0 <= end - found[number]["EnteredCurrentStatus"] - length <= 1, number


def test_a_failed_job_of_the_scheduler_universe_may_go_without_its_cool_down(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(f"NUM_CPUS = 1\nSCHEDULER_UNIVERSE_COOL_DOWN_DURATION = 500\n{MAY}")
    pool.up()
    submit(
        pool,
        "universe = scheduler\nexecutable = /bin/false\non_exit_remove = NumJobStarts > 2\n"
        f"{AS_OTHER}my.DisableCoolDown = true",
    )
    pool.until("it has left the queue", lambda: not pool.json("q"))
    (ad,) = pool.json("history")
    assert (ad["NumJobStarts"], ad.get("NumJobCoolDowns")) == (3, None)


def test_an_edit_of_the_end_of_a_cool_down_counts_at_once(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 2\nNEGOTIATOR_INTERVAL = 1\nSYSTEM_ON_VACATE_COOL_DOWN = 5000\n")
    pool.up()
    submit(pool, SLEEPS)
    pool.until("it executes", lambda: jobs(pool)[1]["JobStatus"] == 2)
    pool.run("vacate-job", "1")
    pool.until("it cools", lambda: "Ic" in pool.run("q", "-nobatch", "1").stdout)
    pool.run("qedit", "1", "JobCoolDownExpiration", "0")
    pool.until("it executes again", lambda: jobs(pool)[1]["JobStatus"] == 2)
    pool.run("hold", "1")
    pool.run("qedit", "1", "JobCoolDownExpiration", "9999999999")
    pool.run("release", "1")
    # Its former run may only now be over.
    pool.until("it cools again", lambda: "Ic" in pool.run("q", "-nobatch", "1").stdout)


#: Serves ``osdf://``: the first transfer ends as one that Pelican says may be tried again.
_PLUGIN = """#!/bin/sh
if [ "$1" = -classad ]; then
    echo 'MultipleFileSupport = true'; echo 'PluginType = "FileTransfer"'; echo 'SupportedMethods = "osdf"'; exit
fi
while [ $# -gt 0 ]; do case $1 in -infile) in=$2;; -outfile) out=$2;; esac; shift; done
local=$(sed -n 's/.*LocalFileName *= *"\\([^"]*\\)".*/\\1/p' $in)
if mkdir %(once)s 2>/dev/null; then
    echo '[ TransferSuccess = false; TransferUrl = "osdf://x/data"; TransferError = "cache is away" ]' > $out
    exit 11
fi
echo fetched > "$local"
echo '[ TransferSuccess = true; TransferUrl = "osdf://x/data"; TransferTotalBytes = 8 ]' > $out
"""


def test_the_template_of_pelican_tries_a_transfer_again_after_a_cool_down(
    make_pool: Callable[[str], Pool], open_directory: Path
) -> None:
    plugin, shared = open_directory / "plugin", open_directory / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    plugin.write_text(_PLUGIN % {"once": shared / "once"})
    plugin.chmod(0o755)
    pool = make_pool(
        f"NUM_CPUS = 1\nNEGOTIATOR_INTERVAL = 1\nSYSTEM_COOLDOWN_DURATION = 1\nFILETRANSFER_PLUGINS = {plugin}\n"
        "use FEATURE : PelicanRetryPolicy\n"
    )
    pool.up()
    log = pool.root / "pelican.log"
    submit(
        pool,
        f"executable = /bin/cat\narguments = data\ntransfer_input_files = osdf://x/data\noutput = o\nlog = {log}\n"
        "my.PelicanRetryEnabled = true\nmy.PelicanRetryDelay = 3",
    )
    pool.until("it has left the queue", lambda: not pool.json("q"))
    (ad,) = pool.json("history")
    assert (ad["NumJobCoolDowns"], ad["ExitCode"], ad["NumHolds"]) == (1, 0, 0)
    assert (pool.root / "o").read_text() == "fetched\n"
