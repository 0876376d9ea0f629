"""Values of knobs that a program gives with a description count instead of the configuration."""

from __future__ import annotations

from pathlib import Path

from slotwise.client.descriptions import DescriptionReader, ReadOptions
from slotwise.home import PoolHome


def test_knobs_of_a_submission_count_for_it_alone(tmp_path: Path) -> None:
    reader = DescriptionReader(PoolHome(tmp_path), {"CONDOR_CONFIG": "/dev/null", "HOME": str(tmp_path)}, "alice")
    text = "shell = true\ncontainer_image = a.sif\nqueue\n"
    for knobs, common in (({"CONTAINER_REGEX_COMMON_BY_DEFAULT": r".*\.sif"}, True), ({}, False)):
        options = ReadOptions(check_files=False, knobs=knobs)
        ad = reader.read(text, None, options=options).clusters[0].job(0)
        assert ("CommonInputCatalogs" in ad) is common
