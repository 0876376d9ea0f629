"""``jobset.name`` and ``jobset.ATTR``: what HTCondor's condor_submit sends for the set of a cluster (25.14.1).

``job-sets.jsonl``: the commands beside the executable, and the attributes of the set as ``condor_submit -dry-run`` or,
for the name of an attribute, the schedd has them; ``refused``: HTCondor submits nothing, and what is said here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ExprTree
from slotwise.errors import SubmitError
from slotwise.submit import parse
from slotwise.table import unpack_ads

CASES = [json.loads(line) for line in Path(__file__).with_name("job-sets.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "; ".join(case["commands"]))
def test_commands_about_a_job_set_say_what_they_say_in_htcondor(case: dict[str, Any]) -> None:
    text = "\n".join(("executable = /bin/true", *case["commands"], ""))
    if "refused" in case:
        with pytest.raises(SubmitError) as caught:
            parse(text, filename="a.sub", first_cluster=1, check_files=False)
        assert case["refused"] in caught.value.message
        assert caught.value.origin.startswith("a.sub:") and caught.value.hint
        return
    submission = parse(text, filename="a.sub", first_cluster=1, check_files=False)
    assert [said for said in submission.warnings if "jobset" in said.lower()] == []
    (cluster,) = submission.clusters
    found = {"JobSetName": str(cluster.ad.lookup("JobSetName"))} if "JobSetName" in cluster.ad else {}
    for ad in unpack_ads(cluster.job_set()) if cluster.job_set() else ():
        found |= {name: str(ad.lookup(name)) for name in ad}
    assert found == {name: str(ExprTree(value)) for name, value in case["set"].items()}


def test_a_set_without_a_name_has_that_of_its_cluster() -> None:
    text = "executable = /bin/true\njobset.Color = 1\nqueue\n"
    assert parse(text, check_files=False).mentions_cluster
    (cluster,) = parse(text, check_files=False, first_cluster=77).clusters
    assert cluster.ad["JobSetName"] == "77"


def test_programs_of_one_description_have_sets_of_their_own() -> None:
    text = (
        "executable = /bin/true\njobset = One\njobset.Color = 1\nqueue\n"
        "executable = /bin/false\njobset = Two\njobset.Color = 2\nqueue\n"
    )
    one, two = parse(text, check_files=False).clusters
    assert [(each.ad["JobSetName"], unpack_ads(each.job_set())[0]["Color"]) for each in (one, two)] == [
        ("One", 1), ("Two", 2)
    ]  # fmt: skip
