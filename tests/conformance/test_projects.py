"""Records of projects: the same commands, in order, as were given to HTCondor 25.14 (projects.jsonl), with its answers.

The recorded pool had PERSISTENT_PROJECT_RECORDS on and started no jobs.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.access_point import RunningAccessPoint
from tests.support.command import command

STEPS = [json.loads(line) for line in (Path(__file__).parent / "projects.jsonl").read_text().splitlines()]
FILES = {
    "job.sub": "executable = /bin/sleep\narguments = 600\nproject_name = $(project)\nqueue 2\n",
    "expr.sub": "executable = /bin/sleep\narguments = 600\nMY.ProjectName = 3\nqueue\n",
    "each.sub": "executable = /bin/sleep\narguments = 600\nproject_name = $(p)\nqueue p in (gamma, delta)\n",
}


def without_clusters(lines: str) -> list[str]:
    """Rows of `q` without ClusterId: in HTCondor, refused submissions use an id up, too."""
    return [line.split(maxsplit=1)[1] for line in lines.splitlines()]


async def test_commands_about_projects_answer_as_htcondors(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(PERSISTENT_PROJECT_RECORDS="true")
    token = schedd.token_file("admin", "ADMINISTRATOR")
    own = schedd.token_file(schedd.owner)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    try:
        for step in STEPS:
            name, *words = step["words"]
            words = [str(tmp_path / word) if word in FILES else word for word in words]
            told = await command(schedd.home.root, name, *words, token=token if name == "qusers" else own)
            says = (step["words"], told.out, told.err)
            assert told.status == step["status"], says
            if name == "submit":
                reason = step["err"].rstrip().rsplit("ERROR: ", 1)[-1] if step["status"] else ""
                assert reason in told.err, says
            elif name == "q":
                assert without_clusters(told.out) == without_clusters(step["out"]), says
            elif step["status"]:
                assert step["out"].strip().rsplit(":", 1)[-1] in told.err, says
            elif name == "qusers" and step["out"].endswith(": \n"):  # what was done; here with a number
                assert told.out.startswith(step["out"].rstrip()), says
            elif name == "qusers":
                assert told.out == step["out"], says
    finally:
        await schedd.stop()
