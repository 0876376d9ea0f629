"""User maps in daemons: the schedd's answers, the negotiator's matches, and what a reconfiguration changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.pool import Pool

CONFIG = """NUM_CPUS = 1
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
SCHEDD_DEBUG = D_FULLDEBUG
SCHEDD_CLASSAD_USER_MAP_NAMES = Trust
NEGOTIATOR_CLASSAD_USER_MAP_NAMES = Trust
STARTD_CLASSAD_USER_MAP_NAMES = Trust
TOOL_CLASSAD_USER_MAP_NAMES = Trust
CLASSAD_USER_MAPFILE_Trust = {maps}
"""


def test_daemons_answer_from_their_maps_and_read_them_again(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text("* /.*/ Nobody\n")
    pool = make_pool(CONFIG.format(maps=maps))
    pool.up()
    (pool.root / "job.sub").write_text(
        'executable = /bin/true\nrequirements = userMap("Trust", MY.Owner) == "Somebody" && TARGET.Cpus > 0\nqueue\n'
    )
    pool.run("submit", "job.sub")
    # The schedd evaluates the constraint, the command what is printed.
    nobody = ("q", "-constraint", 'debug(userMap("Trust", Owner)) == "Nobody"', "-af", 'userMap("Trust", Owner)')
    assert pool.run(*nobody).stdout == "Nobody\n"
    log = pool.home.log / "SchedLog"
    pool.until("debug() shows in the log", lambda: '"Trust",Owner) --> Nobody' in log.read_text())
    maps.write_text("* /.*/ Somebody\n")
    assert pool.run(*nobody).stdout == "Somebody\n"
    pool.run("reconfig")
    pool.until("the job matches and runs", lambda: not pool.json("q"))
