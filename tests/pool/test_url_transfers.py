"""Inputs and outputs that are URLs: by the plugin that comes with us, by those of the host and of the job; how jobs end
whose files do not move, as HTCondor 25.14.1 answered for the same plugin and jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool import Pool
from tests.support.web_files import WebFiles

pytestmark = pytest.mark.filterwarnings("error")

#: debug://exit/N says that each file is broken and ends with N; silent, noerror: without an answer, without an error;
#: signal: by that signal; sleep: N seconds later; env/X: brings what it knows as X.
PLUGIN = """#!/bin/bash
if [ "$1" = -classad ]; then printf 'PluginType = "FileTransfer"\\nSupportedMethods = "debug"\\n'; exit; fi
while [ $# -gt 0 ]; do case $1 in -infile) in=$2 ;; -outfile) out=$2 ;; esac; shift; done
url=$(grep -o 'Url = "[^"]*' $in | head -1 | cut -d'"' -f2)
local=$(grep -o 'LocalFileName = "[^"]*' $in | head -1 | cut -d'"' -f2)
n=${url##*/}
start="[ TransferUrl = \\"$url\\"; TransferFileName = \\"$local\\"; TransferProtocol = \\"debug\\""
case $url in
 *://exit/*) echo "$start; TransferSuccess = false; TransferError = \\"broken $url\\" ]" > $out; exit $n ;;
 *://noerror/*) echo "$start; TransferSuccess = false ]" > $out; exit $n ;;
 *://silent/*) exit $n ;;
 *://signal/*) kill -$n $$ ;;
 *://sleep/*) sleep $n ;;
 *://env/*) { env; cat $in; } > $local; echo "$start; TransferSuccess = true; TransferTotalBytes = 3 ]" > $out ;;
esac
"""


@pytest.fixture
def place(open_directory: Path) -> Path:
    """A directory that jobs of other users reach, with the plugin."""
    open_directory.chmod(0o777)
    (open_directory / "debug.sh").write_text(PLUGIN)
    (open_directory / "debug.sh").chmod(0o755)
    return open_directory


def submit(pool: Pool, place: Path, commands: str, *, program: str = "true") -> str:
    """Submit a job with these commands; its id."""
    (place / "s.sub").write_text(
        f"executable = /bin/sh\narguments = \"-c '{program}'\"\ntransfer_executable = false\nlog = l\n"
        f"should_transfer_files = yes\n{commands}\nqueue\n"
    )
    return pool.run("submit", "-terse", "s.sub", cwd=place).stdout.split()[0]


def ended(pool: Pool, job: str) -> dict[str, Any]:
    """The ad of a job that has come to its end."""
    found: list[Any] = []

    def look() -> bool:
        found[:] = pool.json("history", job, "-json") or []
        return bool(found)

    pool.until(f"{job} has ended", look)
    return dict(found[0])


def test_urls_of_the_web_and_of_the_host(make_pool: Callable[[str], Pool], place: Path) -> None:
    (place / "local").write_text("local\n")
    with WebFiles().serving() as web:
        web.files["/a"], web.files["/b"] = b"one\n", b"three\n"
        pool = make_pool("NUM_CPUS = 1\n")
        pool.up()

        def has_all() -> bool:  # plugins are asked what they can while the slot is advertised already
            methods = pool.run("status", "-af", "HasFileTransferPluginMethods").stdout.strip()
            return {"http", "https", "ftp", "file"} <= set(methods.split(","))

        pool.until("the slot has the methods of the plugins", has_all)
        job = submit(
            pool,
            place,
            f"transfer_input_files = {web.base}/a, {web.base}/b?x=y, file://{place}/local, s.sub\n"
            f'transfer_output_files = sum, made\ntransfer_output_remaps = "sum = {web.base}/sum; made = file://{place}/m"',
            program="cat a b local > sum; echo made > made",
        )
        ad = ended(pool, job)
        assert web.files["/sum"] == b"one\nthree\nlocal\n" and (place / "m").read_text() == "made\n"
    assert ad["TransferInputFileCounts"] == {"HTTP": 2, "FILE": 1, "CEDAR": 1}
    told = ad["TransferInputStats"]
    assert (told["HTTPFilesCountLastRun"], told["HTTPSizeBytesLastRun"], told["FILESizeBytesTotal"]) == (2, 10, 6)
    assert (ad["TransferOutputStats"]["HTTPFilesCountTotal"], ad["TransferOutputStats"]["FILESizeBytesLastRun"]) == (
        1,
        5,
    )
    asked = [asked for asked in web.asked if asked.method == "GET"]
    assert [asked.path for asked in asked] == ["/a", "/b?x=y"]
    epochs = ("history", "-epochs", "-forwards", "-type", "INPUT", "-af")
    (said,) = pool.run(*epochs, "InputPluginInvocations[0].Schemes", "size(InputPluginInvocations)").stdout.splitlines()
    assert said == "file,http 1", "one call for all its URLs"


#: What HTCondor answered, by what the job says: code, subcode and details of the hold; nothing where the job went back
#: to Idle. The reason begins with its words for the protocol, or those for the access point.
HELD = {
    "transfer_input_files = http://nonexistent.invalid/index.html": (
        13, 256, "using protocol http. Details: Could not resolve host: nonexistent.invalid "
        "( URL file = http://nonexistent.invalid/index.html )|"),
    "transfer_input_files = debug://exit/17": (
        13, 4352, "using protocol debug. Details: broken debug://exit/17 ( URL file = debug://exit/17 )|"),
    "transfer_input_files = debug://noerror/5": (
        13, 1280, "using protocol debug. Details: File transfer plugin {plugin} exited unexpectedly without producing "
        "an error message  ( URL file = debug://noerror/5 )|"),
    "transfer_input_files = debug://signal/9": (
        13, 9, "while receiving files from access point {ap}. Details: file transfer plugin {plugin} exited "
        "(signal 9), no valid classads in output file "),
    "transfer_input_files = debug://sleep/300": (
        13, 62, "while receiving files from access point {ap}. Details: file transfer plugin {plugin} exited "
        "(exit code 62), no valid classads in output file "),
    'transfer_output_files = foo\ntransfer_output_remaps = "foo = debug://exit/17"': (
        12, 4352, "using protocol debug. Details: broken debug://exit/17 ( URL file = debug://exit/17 )|"),
    'transfer_output_files = foo\ntransfer_output_remaps = "foo = file:///tmp/xf"': (
        12, 256, "using protocol file. Details: could not open local file {scratch}/foo, error 2 "
        "(No such file or directory) ( URL file = file:///tmp/xf )|"),
    "transfer_output_files = foo": (
        12, 2, "while sending files to access point {ap}. Details: reading from file {scratch}/foo: "
        "(errno 2) No such file or directory"),
}  # fmt: skip
IDLE = [
    "transfer_input_files = debug://silent/3",
    "transfer_input_files = debug://silent/0",
    'transfer_output_files = foo\ntransfer_output_remaps = "foo = debug://signal/9"',
    'transfer_output_files = foo\ntransfer_output_remaps = "foo = debug://silent/3"',
    "transfer_input_files = mine://silent/3\ntransfer_plugins = mine={plugin}",
]


def test_jobs_whose_files_do_not_move_end_as_in_htcondor(make_pool: Callable[[str], Pool], place: Path) -> None:
    plugin = str(place / "debug.sh")
    pool = make_pool(
        f"NUM_CPUS = 20\nFILETRANSFER_PLUGINS = $(FILETRANSFER_PLUGINS) {plugin}\n"
        "MAX_FILE_TRANSFER_PLUGIN_LIFETIME = 2\n"
    )
    pool.up()
    held = {submit(pool, place, commands): (commands, expected) for commands, expected in HELD.items()}
    idle = {submit(pool, place, commands.format(plugin=plugin)): commands for commands in IDLE}

    def ads() -> dict[str, Any]:
        found = pool.json("q", "-allusers", "-json") or []
        return {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in found}

    pool.until("all that are to be held are", lambda: all(ads()[job]["JobStatus"] == 5 for job in held))
    pool.until("the others went back", lambda: all(ads()[job].get("NumShadowStarts", 0) > 1 for job in idle))
    now = ads()
    assert not [commands for job, commands in idle.items() if now[job]["JobStatus"] == 5]
    for job, (commands, (code, subcode, words)) in held.items():
        ad = now[job]
        assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (code, subcode), commands
        reason, name = ad["HoldReason"], "input" if code == 13 else "output"
        start = f"Transfer {name} files failure at execution point slot1_"
        assert reason.startswith(start), commands
        ap = str(ad["GlobalJobId"]).partition("#")[0].rpartition("@")[2]
        expected = words.format(plugin=plugin, ap=ap, scratch="SCRATCH")
        before, _, after = expected.partition("SCRATCH")
        rest = reason.removeprefix(start).partition(" ")[2]
        assert rest.startswith(before) and after in rest, (commands, reason)
        if expected.endswith("|"):
            assert rest.endswith(expected[-20:]), (commands, reason)


def test_a_job_brings_its_own_plugin(make_pool: Callable[[str], Pool], place: Path) -> None:
    """It has the job's place before the host's, the job's variables that are for it, and PluginData."""
    (place / "mine_plugin.sh").write_text(PLUGIN.replace("debug", "x"))
    (place / "mine_plugin.sh").chmod(0o755)
    (place / "site.sh").write_text(PLUGIN.replace('"debug"', '"mine"').replace(" env;", " echo the site;"))
    (place / "site.sh").chmod(0o755)
    knob = "STARTER_DISABLE_USER_SUPPLIED_TRANSFER_PLUGINS"
    pool = make_pool(
        f"NUM_CPUS = 1\nFILETRANSFER_PLUGINS = {place}/site.sh\n"
        f"{knob} = ifThenElse(TARGET.Refuse =?= true, 1, ifThenElse(TARGET.PassOver =?= true, 2, 0))\n"
    )
    pool.up()
    own = (
        f"transfer_input_files = mine://env/brought\ntransfer_plugins = mine={place}/mine_plugin.sh\n"
        "transfer_output_files = brought\n"
        'environment = "MINE_LEVEL=3 LD_PRELOAD=/no/such OTHER=4 BEARER_TOKEN_FILE=t"\n'
        'MY.PluginData = [ a = 1 ]\nMY.mine_PluginData = "b"\n'
    )
    ended(pool, submit(pool, place, own))
    brought = (place / "brought").read_text()
    lines = brought.splitlines()
    assert {"MINE_LEVEL=3", "BEARER_TOKEN_FILE=t"} <= set(lines)
    assert "OTHER=4" not in lines and "LD_PRELOAD" not in brought
    assert any(line.startswith("_CONDOR_MACHINE_AD=") for line in lines)
    assert re.search(r"\sPluginData =\s*\[\s*a = 1\s*\]", brought) and 'mine_PluginData = "b"' in brought
    ended(pool, submit(pool, place, f"{own}MY.PassOver = true\n"))
    assert "the site" in (place / "brought").read_text().splitlines()
    job = submit(pool, place, f"{own}MY.Refuse = true\n")
    pool.until("it went back", lambda: "not allowed" in pool.run("q", job, "-af", "VacateReason").stdout)
    assert pool.run("q", job, "-af", "JobStatus").stdout.strip() != "5"


def test_all_plugins_are_called_and_the_last_that_fails_counts(make_pool: Callable[[str], Pool], place: Path) -> None:
    """HTCondor calls them in the order of their paths."""
    (place / "z.sh").write_text(PLUGIN.replace('SupportedMethods = "debug"', 'SupportedMethods = "zebug"'))
    (place / "z.sh").chmod(0o755)
    pool = make_pool(f"NUM_CPUS = 2\nFILETRANSFER_PLUGINS = {place}/z.sh, {place}/debug.sh\n")
    pool.up()
    first = submit(pool, place, "transfer_input_files = zebug://exit/3, debug://exit/17")
    second = submit(pool, place, "transfer_input_files = debug://exit/17, zebug://exit/3")
    for job in (first, second):
        pool.until("it is held", lambda job=job: (pool.json("q", job, "-json") or [{}])[0].get("JobStatus") == 5)
        (ad,) = pool.json("q", job, "-json")
        assert ad["HoldReasonSubCode"] == 768
        assert ad["HoldReason"].endswith(
            "using protocol zebug. Details: broken zebug://exit/3 ( URL file = zebug://exit/3 )"
        )
        calls = "InputPluginInvocations"
        epochs = ("history", "-epochs", job, "-type", "INPUT", "-af", f"{calls}[0].Schemes", f"{calls}[1].Schemes")
        pool.until("the calls are recorded", lambda epochs=epochs: pool.run(*epochs).stdout.strip())
        assert pool.run(*epochs).stdout.strip() == "debug zebug"
