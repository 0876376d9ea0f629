"""Submit requirements as HTCondor 25.14's schedd judged them (requirements.jsonl).

Made by tests/support/requirement_cases.py. HTCondor repeats a warning for each job that gets it; here it is told once.
"""

import json
import re
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.config import Config, load
from slotwise.errors import DeniedError
from slotwise.model.ownership import LocalDomains
from slotwise.schedd.submission.new_cluster import NewJobs, NewJobSettings, ProcBatch, SubmittedCluster, build
from slotwise.schedd.submission.rules import SubmitRules
from slotwise.submit import parse

CASES = [json.loads(line) for line in Path(__file__).with_name("requirements.jsonl").read_text().splitlines()]
NOW = 1_700_000_000
SCHEDD = ClassAd({"MyType": "Scheduler", "Name": "peer@127-0-0-1.peer.local"})


def new(text: str, directory: Path, config: Config) -> NewJobs:
    submission = parse(text, cwd=directory, env={}, owner="peer", now=NOW, config=config, check_files=False)
    (cluster,) = submission.clusters
    sent = SubmittedCluster(cluster.pack(), [ProcBatch(cluster.count, cluster.deltas())])
    settings = NewJobSettings("peer", LocalDomains("peer.local"))
    return build("peer@peer.local", sent, cluster.ad, lambda: 7, NOW, settings)


def judged(case: dict[str, str], directory: Path) -> tuple[str | None, list[str]]:
    """Why the jobs are refused, or what their user is warned of."""
    file = directory / "config"
    file.write_text(case["config"])
    config = load(file, env={}, cwd=directory)
    try:
        warnings, _ = SubmitRules.read(config).admit(new(case["submit"], directory, config), SCHEDD, NOW, 1)
    except DeniedError as error:
        return error.message, []
    return None, warnings


def recorded(case: dict[str, str]) -> tuple[str | None, list[str]]:
    """The same of HTCondor's condor_submit."""
    refusal = re.search(
        r"Failed to commit job submission into the queue\.\nERROR: (.*?)\n?\n?status", case["errors"], re.S
    )
    if refusal:
        return refusal[1].strip(), []
    told = re.search(r"following warning\(s\):\nWARNING: (.*?)\n(?=To monitor|$)", case["errors"], re.S)
    texts = re.split(r"\|?QMGMT:0:", told[1])[1:] if told else []
    return None, [text.strip() for text in dict.fromkeys(texts)]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_jobs_are_judged_as_by_htcondor(number: int, tmp_path: Path) -> None:
    case = CASES[number]
    theirs, ours = recorded(case), judged(case, tmp_path)
    assert (ours[0], [text.strip() for text in ours[1]]) == theirs


def test_the_cases_have_every_kind_of_answer() -> None:
    answers = [recorded(case) for case in CASES]
    refusals = [refusal for refusal, _ in answers if refusal]
    assert sum("non-boolean" in text for text in refusals) > 10
    assert sum("failed to evaluate" in text for text in refusals) > 5
    assert sum("not met" in text for text in refusals) > 5
    assert sum("not met" not in text and "non-boolean" not in text for text in refusals) > 10
    assert sum(bool(warnings) for _, warnings in answers) >= 10
    assert sum(len(warnings) > 1 for _, warnings in answers) >= 3
    assert sum(answer == (None, []) for answer in answers) > 10
