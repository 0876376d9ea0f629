"""A job whose child hides from whoever looks for its family."""

from __future__ import annotations

from tests.support.starter_bench import StarterBench

#: Forks twice, changes session, closes all, and writes a mark that only a living process can write. The job itself ends
#: when the mark was seen.
HIDER = """
import os, time
if os.fork():
    while not os.path.exists("seen"): time.sleep(0.02)
    os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.setsid() if False else os.setpgid(0, 0)
os.environ.clear()
for fd in range(3): os.close(fd)
open("hidden", "w").write(str(os.getpid()))
while True: time.sleep(0.05)
"""


async def hidden_pid(bench: StarterBench) -> int:
    """The process that hides (as its namespace numbers it), by the mark it leaves in the scratch directory."""

    def mark() -> str:
        found = list(bench.execute.glob("dir_*/scratch/hidden"))
        return found[0].read_text() if found else ""

    return int(await bench.eventually(mark, "the hider has hidden"))


def let_go(bench: StarterBench) -> None:
    """The job may end."""
    next(iter(bench.execute.glob("dir_*/scratch"))).joinpath("seen").touch()
