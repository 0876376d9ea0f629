"""Standard output and error that go to the access point while the job runs, under a real starter process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from slotwise.schedd.shadow import live_output
from slotwise.schedd.transfer.files import FilePlan
from slotwise.wire.gen import schedd_pb2

from tests.support.starter_bench import StarterBench, job_python, starter_bench
from tests.support.starter_neighbours import own_name

pytestmark = pytest.mark.host
EXITED = schedd_pb2.RunEnded.EXITED
HELD = schedd_pb2.RunEnded.HELD
LIVE: dict[str, Any] = {"StreamOut": True, "StreamErr": True}
SH = "/bin/sh"
#: Writes a line, and another one for each file that appears; ends when there is a file `end`.
LINES = "echo start; echo trouble >&2; i=0; until [ -e end ]; do [ -e $i ] && echo $i && i=$((i+1)); sleep 0.02; done"


def shown(bench: StarterBench, name: str = "live.out") -> str:
    """What the access point has of a stream."""
    path = bench.shadow.files / name
    return path.read_text() if path.exists() else ""


def tell(bench: StarterBench, name: str) -> None:
    """Make a file in the job's scratch directory."""
    (scratch,) = bench.execute.glob("dir_*/scratch")
    (scratch / name).touch()


async def sees(bench: StarterBench, text: str) -> None:
    await bench.eventually(lambda: shown(bench) == text, f"the access point has {text!r}: {shown(bench)!r}")


async def test_output_is_there_while_the_job_runs() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", LINES, **LIVE)
        await sees(bench, "start\n")
        file = (bench.shadow.files / "live.out").stat().st_ino
        tell(bench, "0")
        await sees(bench, "start\n0\n")
        assert bench.shadow.runs[run].ended is None
        tell(bench, "1")
        tell(bench, "end")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0)
        assert shown(bench).startswith("start\n0\n") and shown(bench, "live.err") == "trouble\n"
        assert not {"_condor_stdout", "_condor_stderr"} & set(bench.shadow.runs[run].outputs)
        assert (bench.shadow.files / "live.out").stat().st_ino == file, "who follows the file sees it all"


async def test_only_the_stream_that_the_job_names_is_live() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", "echo out; echo err >&2", StreamErr=True)
        await bench.ended(run)
        assert bench.shadow.runs[run].outputs["_condor_stdout"] == b"out\n"
        assert shown(bench, "live.err") == "err\n" and shown(bench) == ""


async def test_a_file_of_before_is_emptied_unless_the_job_appends() -> None:
    async with starter_bench() as bench:
        for appends, text in ((False, "new\n"), (True, "old\nnew\n")):
            (bench.shadow.files / "live.out").write_text("old\n")
            run = bench.submit(SH, "-c", "echo new", StreamOut=True, EraseOutputAndErrorOnRestart=not appends)
            await bench.ended(run)
            assert shown(bench) == text


async def test_large_output_arrives_whole() -> None:
    async with starter_bench() as bench:
        script = "import sys\nfor i in range(3_000_000): sys.stdout.write(f'{i}\\n')"
        run = bench.submit(job_python(), "-c", script, StreamOut=True)
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0)
        assert shown(bench) == "".join(f"{i}\n" for i in range(3_000_000))


@pytest.mark.parametrize("appends", [False, True])
async def test_a_starter_that_is_killed_goes_on_where_it_was(appends: bool) -> None:
    async with starter_bench() as bench:
        (bench.shadow.files / "live.out").write_text("old\n")
        before = "old\n" if appends else ""
        run = bench.submit(SH, "-c", LINES, StreamOut=True, EraseOutputAndErrorOnRestart=not appends)
        await sees(bench, f"{before}start\n")
        bench.shadow.answers_pieces = False
        tell(bench, "0")
        await sees(bench, f"{before}start\n0\n")  # written, and the starter does not know
        await bench.kill_9()
        bench.shadow.answers_pieces = True
        tell(bench, "1")
        await bench.start()
        await sees(bench, f"{before}start\n0\n1\n")
        tell(bench, "end")
        await bench.ended(run)
        assert shown(bench) == f"{before}start\n0\n1\n"
        sent = [piece for piece in bench.shadow.runs[run].pieces if not piece.error]
        assert sum(piece.begin for piece in sent) == 1
        assert sum(len(piece.data) for piece in sent) < 40, "what had arrived before was not sent again"


async def test_a_job_that_ended_without_a_starter_has_all_its_output() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", LINES, **LIVE)
        await sees(bench, "start\n")
        await bench.kill_9()
        tell(bench, "0")
        tell(bench, "end")
        await bench.start()
        ended = await bench.ended(run)
        assert ended.how == EXITED and shown(bench) in ("start\n0\n", "start\n")  # it may have seen the end first
        (bench.shadow.files / "live.out").unlink()


async def test_what_somebody_takes_away_is_there_again_at_the_end() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", LINES, StreamOut=True)
        await sees(bench, "start\n")
        (bench.shadow.files / "live.out").unlink()
        tell(bench, "0")
        await sees(bench, "start\n0\n")
        (bench.shadow.files / "live.out").write_text("st")
        tell(bench, "1")
        await sees(bench, "start\n0\n1\n")
        tell(bench, "end")
        await bench.ended(run)


async def test_a_job_that_is_killed_has_its_last_words() -> None:
    async with starter_bench() as bench:
        run = bench.submit(SH, "-c", "trap 'echo last; exit 1' TERM; echo start; while :; do sleep 0.05; done", **LIVE)
        await sees(bench, "start\n")
        assert bench.startd is not None
        bench.startd.command(run, kill={"reason_code": 1010, "reason": "the machine drains"})
        await bench.ended(run)
        assert shown(bench) == "start\nlast\n"


async def test_a_job_may_cut_its_own_output_off() -> None:
    async with starter_bench() as bench:
        script = "exec >> _condor_stdout; echo first; until [ -e 0 ]; do sleep 0.02; done; "
        script += ": > _condor_stdout; sleep 0.6; echo second"
        run = bench.submit(SH, "-c", script, StreamOut=True)
        await sees(bench, "first\n")
        tell(bench, "0")
        await bench.ended(run)
        assert shown(bench) == "first\nsecond\n"


async def test_a_stream_that_cannot_be_written_holds_the_job() -> None:
    async with starter_bench() as bench:
        (bench.shadow.files / "live.out").mkdir()
        run = bench.submit(SH, "-c", "sleep 60", StreamOut=True)
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 7, 21)
        assert f"standard output to {bench.shadow.files}/live.out: Is a directory" in ended.reason


def piece(plan: FilePlan, data: bytes, base: int = 0, offset: int = 0, **how: bool) -> tuple[int, int]:
    kept = live_output.write(plan, schedd_pb2.StreamPiece(data=data, base=base, offset=offset, **how))
    assert not kept.problem, kept.problem
    return kept.base, kept.end


@pytest.mark.parametrize("seed", range(20))
def test_pieces_that_come_again_or_late_change_nothing(seed: int, tmp_path: Path) -> None:
    """Courses of pieces whose answers are lost: the sender goes on from any place it knows of."""
    chance = random.Random(seed)
    plan = FilePlan(own_name(), str(tmp_path), stdout="out")
    file, append = tmp_path / "out", chance.random() < 0.5
    file.write_bytes(b"before")
    whole = bytes(chance.randrange(256) for _ in range(500))
    for _ in range(chance.randint(1, 3)):  # the answer to the first piece is lost, too
        base, end = piece(plan, b"", begin=True, append=append)
    known = [0]
    while end < len(whole):
        start = chance.choice([*known, end])
        data = whole[start : start + chance.randint(1, 80)]
        if chance.random() < 0.1:
            file.write_bytes(file.read_bytes()[: base + chance.randint(0, end)])
        base, end = piece(plan, data, base, start)
        known.append(end)
        if end < start:
            known = [end]
    before = b"before" if append else b""
    assert file.read_bytes()[: base + end] == before + whole[:end]


def test_a_piece_is_of_a_place_in_the_stream(tmp_path: Path) -> None:
    plan = FilePlan(own_name(), str(tmp_path), stdout="sub/out", stderr="sub/err", remaps={"sub/err": "moved"})
    assert piece(plan, b"ab", begin=True) == (0, 2)
    assert piece(plan, b"x", base=0, offset=1 << 60) == (0, 2), "no hole is made"
    assert piece(plan, b"e", begin=True, error=True) == (0, 1)
    assert (tmp_path / "sub/out").read_bytes() == b"ab" and (tmp_path / "moved").read_bytes() == b"e"
    with pytest.raises(ValueError):
        piece(plan, b"x", base=-5, offset=3)
