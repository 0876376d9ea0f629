"""URLs as inputs and outputs, moved by a plugin that is a small script."""

from __future__ import annotations

import os
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.ads import nested_in
from tests.support.starter_bench import StarterBench, job_python, starter_bench

pytestmark = pytest.mark.host
EXITED, HELD, EVICTED = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.HELD, schedd_pb2.RunEnded.EVICTED
#: The last line of a plugin for one file: what it reports.
DONE = """echo '[ TransferSuccess = true; TransferUrl = "shelf://book" ]' > "$4"\n"""
#: Serves ``shelf://NAME``: files of a directory. Speaks the protocol of plugins for several files.
PLUGIN = """#!{python} -S
import os, re, shutil, sys
if "-classad" in sys.argv:
    print('MultipleFileSupport = true\\nPluginType = "FileTransfer"\\nSupportedMethods = "shelf,other"')
    sys.exit()
asked = open(sys.argv[sys.argv.index("-infile") + 1]).read()
said = open(sys.argv[sys.argv.index("-outfile") + 1], "w")
failed = False
for ad in re.findall(r"\\[(.*?)\\]", asked, re.S):
    url, local = (re.search(name + r'\\s*=\\s*"(.*?)"', ad)[1] for name in ("Url", "LocalFileName"))
    far = "{shelf}/" + url.split("://")[1]
    try:
        shutil.copyfile(*((local, far) if "-upload" in sys.argv else (far, local)))
        size = os.path.getsize(far)
        said.write('[ TransferSuccess = true; TransferUrl = "%s"; TransferTotalBytes = %d ]\\n' % (url, size))
    except OSError as error:
        failed = True
        said.write('[ TransferSuccess = false; TransferUrl = "%s"; TransferError = "%s" ]\\n' % (url, error.strerror))
sys.exit(1 if failed else 0)
"""


async def with_shelf(bench: StarterBench) -> None:
    """A starter whose plugin serves the directory ``shelf``."""
    shelf = bench.root / "shelf"
    shelf.mkdir()
    shelf.chmod(0o777)
    (shelf / "book").write_text("from the shelf\n")
    plugin = bench.root / "plugin"
    plugin.write_text(PLUGIN.format(python=job_python(), shelf=shelf))
    plugin.chmod(0o755)
    bench.configure(FILETRANSFER_PLUGINS=f"/nowhere/plugin, {plugin}")
    await bench.kill_9()
    await bench.start()


async def test_urls_are_fetched_and_delivered_by_plugins() -> None:
    async with starter_bench() as bench:
        await with_shelf(bench)
        assert (await bench.facts()).eval("HasFileTransferPluginMethods") == "other,shelf"
        run = bench.submit(
            "/bin/sh", "-c", "cat book; echo new > made; echo here > stays",
            TransferInput="plain, shelf://book", inputs={"plain": b"1"}, TransferOutputRemaps="made=shelf://kept",
            TransferInputStats={"SHELFFilesCountTotal": 2, "SHELFFilesCountLastRun": 9},
        )  # fmt: skip
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended
        assert bench.output(run) == "from the shelf\n"
        assert (bench.root / "shelf" / "kept").read_text() == "new\n"
        end = bench.shadow.runs[run].end_ad
        came, went = nested_in(end, "TransferInputStats"), nested_in(end, "TransferOutputStats")
        assert (came["CedarFilesCountLastRun"], came["CedarSizeBytesLastRun"]) == (1, 1)
        assert came["SHELFFilesCountTotal"] == 3
        assert (came["SHELFFilesCountLastRun"], came["SHELFSizeBytesLastRun"]) == (1, 15)
        assert (went["CedarFilesCountLastRun"], went["SHELFFilesCountLastRun"]) == (3, 1)  # both streams and a file
        outputs = bench.shadow.runs[run].outputs
        assert set(outputs) == {"_condor_stdout", "_condor_stderr", "stays"} and outputs["stays"] == b"here\n"


@pytest.mark.parametrize(
    ("ad", "code", "words"),
    [
        ({"TransferInput": "shelf://nothing"}, 13, "using protocol shelf. Details: No such file"),
        ({"TransferOutputRemaps": "made=shelf://no/where"}, 12, "using protocol shelf. Details: No such file"),
    ],
)
async def test_what_cannot_be_moved_holds_the_job(ad: dict[str, Any], code: int, words: str) -> None:
    async with starter_bench() as bench:
        await with_shelf(bench)
        run = bench.submit("/bin/sh", "-c", "echo new > made", **ad)
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (HELD, code) and words in ended.reason, ended
        await bench.clean()


@pytest.mark.parametrize(
    ("ad", "plugin", "code", "subcode"),
    [
        ({"TransferInput": "far://book"}, None, 13, -1001),
        ({"TransferOutputRemaps": "made=far://no/where"}, None, 12, -1001),
        ({"TransferInput": "shelf://book"}, "#!/no/such/shell\n", 13, -1003),
        ({"TransferInput": "shelf://book"}, "#!/bin/sh\n: > $4\n", 13, -1004),
        ({"TransferInput": "shelf://book"}, "#!/bin/sh\necho garbage > $4\nexit 3\n", 13, -1004),
    ],
)
async def test_a_plugin_at_fault_sends_the_job_elsewhere(
    ad: dict[str, Any], plugin: str | None, code: int, subcode: int
) -> None:
    """As HTCondor 25: a plugin of another machine may do it."""
    async with starter_bench() as bench:
        await with_shelf(bench)
        if plugin is not None:
            (bench.root / "plugin").write_text(plugin)  # it has been asked what it serves
        run = bench.submit("/bin/sh", "-c", "echo new > made", **ad)
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (EVICTED, code, subcode), ended
        await bench.clean()


async def test_plugins_have_the_environment_of_the_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("_CONDOR_SECRET", "of the daemons")
    async with starter_bench() as bench:
        plugin = bench.root / "plugin"
        (bench.root / "bin").mkdir()
        (bench.root / "bin" / "siteshell").symlink_to("/bin/sh")
        monkeypatch.setenv("PATH", f"{bench.root / 'bin'}:{os.environ['PATH']}")
        said = "echo 'MultipleFileSupport = true'; echo 'SupportedMethods = \"shelf\"'"
        plugin.write_text(
            f'#!/usr/bin/env siteshell\nif [ "$1" = -classad ]; then {said}; exit; fi\n'
            f'echo "$http_proxy $_CONDOR_SECRET" > book\n{DONE}'
        )
        plugin.chmod(0o755)
        bench.configure(FILETRANSFER_PLUGINS=plugin)
        await bench.kill_9()
        await bench.start()
        run = bench.submit("/bin/cat", "book", TransferInput="shelf://book")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended
        assert bench.output(run) == "http://proxy.example:3128 \n"


async def test_standard_output_comes_home_when_everything_else_goes_to_a_url() -> None:
    async with starter_bench() as bench:
        await with_shelf(bench)
        run = bench.submit("/bin/sh", "-c", "echo said; echo new > made", OutputDestination="shelf://")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended
        assert set(bench.shadow.runs[run].outputs) == {"_condor_stdout", "_condor_stderr"}
        assert sorted(path.name for path in (bench.root / "shelf").iterdir()) == ["book", "made"]


async def test_what_a_plugin_is_told_is_for_the_jobs_account_alone() -> None:
    """URLs may hold credentials, and at many sites all users have one group."""
    async with starter_bench() as bench:
        plugin = bench.root / "plugin"
        said = "echo 'MultipleFileSupport = true'; echo 'SupportedMethods = \"shelf\"'"
        plugin.write_text(
            f'#!/bin/sh\nif [ "$1" = -classad ]; then {said}; exit; fi\n'
            f'stat -c "%a %u" "$2" > book; id -u >> book\n{DONE}'
        )
        plugin.chmod(0o755)
        bench.configure(FILETRANSFER_PLUGINS=plugin)
        await bench.kill_9()
        await bench.start()
        run = bench.submit("/bin/cat", "book", TransferInput="shelf://book?token=secret/book")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended
        mode, owner, account = bench.output(run).split()
        assert (mode, owner) == ("600", account)


async def test_a_plugin_that_brings_nothing_and_says_nothing_sends_the_job_elsewhere() -> None:
    async with starter_bench() as bench:
        plugin = bench.root / "plugin"
        said = "echo 'MultipleFileSupport = true'; echo 'SupportedMethods = \"shelf\"'"
        plugin.write_text(f'#!/bin/sh\nif [ "$1" = -classad ]; then {said}; exit; fi\n')
        plugin.chmod(0o755)
        bench.configure(FILETRANSFER_PLUGINS=plugin)
        await bench.kill_9()
        await bench.start()
        ended = await bench.ended(bench.submit("/bin/true", TransferInput="shelf://book"))
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (EVICTED, 13, -1004), ended
