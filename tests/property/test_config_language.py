"""Laws of the configuration language: random texts mean what they mean to HTCondor, and nothing crashes it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.config import check, load
from slotwise.config.detect import operating_system
from slotwise.errors import ConfigError, SubmitError
from slotwise.submit import parse

from tests.support import config_reference as both
from tests.support.config_texts import VALUES, Writer

HAS_REFERENCE = importlib.util.find_spec("htcondor2") is not None
needs_reference = pytest.mark.skipif(not HAS_REFERENCE, reason="the wheel `htcondor` is not installed")


@pytest.fixture(autouse=True, scope="module")
def _stop_the_oracle() -> Iterator[None]:
    yield
    both.stop_oracle()


def difference(case: both.Case) -> object:
    """None when both agree, else what each says."""
    own = both.slotwise(case)
    if own.get("code") == "config-runaway":
        return None  # HTCondor never ends here
    theirs = both.reference(case)
    if theirs.get("signal"):
        return None  # HTCondor broke down
    if ("error" in own) != ("error" in theirs):
        return own.get("error"), theirs.get("error")
    prefix = (case.get("subsystem") or "TOOL").lower() + "."
    text = case["files"]["main"].lower()
    # HTCondor's Python face does not find knobs that only have a setting for its own subsystem.
    return {
        name: (value, theirs["values"][name])
        for name, value in own.get("values", {}).items()
        if value != theirs["values"][name] and not (theirs["values"][name] is None and prefix + name.lower() in text)
    } or None


@needs_reference
@pytest.mark.parametrize("seed", range(4))
def test_random_texts_mean_the_same_to_the_reference(seed: int) -> None:
    writer = Writer(seed + 20)
    for _ in range(40):
        case = writer.case()
        assert difference(case) is None, case["files"]["main"]


#: A default with a random number in it, and those that we have defaults of our own for.
_OTHERS = {
    "PERIODIC_CHECKPOINT", "MODIFY_REQUEST_EXPR_REQUESTDISK", "CLAIM_PARTITIONABLE_LEFTOVERS", "SINGULARITY",
    "LIBVIRT_XML_SCRIPT", "FILE_TRANSFER_DISK_LOAD_THROTTLE", "SINGULARITY_USE_LAUNCHER",
    "DAGMAN_CONDOR_SUBMIT_EXE", "DAGMAN_CONDOR_RM_EXE",
}  # fmt: skip


@needs_reference
@pytest.mark.parametrize("subsystem", [None, "STARTD", "SCHEDD", "MASTER"])
def test_defaults_are_the_references(subsystem: str | None) -> None:
    from slotwise.config import knobs

    names = [k.name for k in knobs() if k.in_reference and not set("<.") & set(k.name) and k.name not in _OTHERS]
    case = {"files": {"main": "X = 1\n"}, "queries": [*names, *operating_system()], "subsystem": subsystem}
    assert difference(case) is None


@needs_reference
@pytest.mark.parametrize(
    "value", ["abc", "-5", "2 * 60", "99999999999999", "1.7", "true", "", "undefined", "10K", "3 > 2"]
)
def test_typed_reading_is_the_references(value: str) -> None:
    from slotwise.config import knobs

    # Knobs that steer loading, that a daemon finds out itself, and one whose default HTCondor's table has wrong.
    special = {"REQUIRE_LOCAL_CONFIG_FILE", "ADSTASH_SE_LOG_MAPPINGS", "DETECTED_CPUS", "COUNT_HYPERTHREAD_CPUS"}
    names = [
        k.name
        for k in knobs()
        if k.in_reference
        and k.type in ("int", "long", "double", "bool")
        and not set("<.") & set(k.name)
        and k.name not in special | _OTHERS
        and not k.name.startswith(("AUTO_USE", "DETECTED"))
    ]
    text = "".join(f"{name} = {value}\n" for name in names)
    assert difference({"files": {"main": text}, "queries": names}) is None


@needs_reference
@pytest.mark.parametrize("arguments", ["", "(a1)", "(a1, b2 , c3)", "(STARTD_CRON, tag, /bin/x, -a -b)"])
def test_templates_expand_as_the_references(arguments: str) -> None:
    from slotwise.config import knobs, templates

    names = [k.name for k in knobs() if "<" not in k.name and "." not in k.name and k.in_reference and k.default != ""]
    names = [name for name in names if name not in _OTHERS]
    names += ["STARTD_CRON_JOBLIST", "SCHEDD_CRON_JOBLIST", "WANT_HOLD", "WANT_HOLD_REASON", "JOB_TRANSFORM_NAMES"]
    names += [
        "STARTD_CRON_a1_MODE",
        "STARTD_CRON_tag_ARGS",
        "STARTD_CRON_a1_MONITOR_METRICS",
        "CLASSAD_USER_MAPFILE_a1",
    ]
    for category, name, _ in templates():
        if name == "Hibernate_Idle":  # one of ours
            continue
        text = f"CONDOR_HOST = cm.example.org\nPREEMPT = Mine\nuse {category} : {name}{arguments}\n"
        assert difference({"files": {"main": text}, "queries": names, "subsystem": "STARTD"}) is None, text


PIECES = st.one_of(
    st.sampled_from([*VALUES, "=", "@=end", "\\", "#", "if ", "endif", "use POLICY : ", "queue "]), st.text(max_size=8)
)
TEXTS = st.lists(st.lists(PIECES, max_size=6).map("".join), max_size=12).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "main"
    path.write_text(text, encoding="utf-8", errors="surrogatepass" if text.isascii() else "replace")
    try:
        config = load(path, env={}, home=path.parent)
    except ConfigError as error:
        assert error.message
        return
    for name, raw, _ in config.settings():
        try:
            config.get(name)
        except ConfigError as error:
            assert raw and error.code == "config-runaway"
    check(config)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, count=st.integers(0, 3))
def test_any_description_is_read_or_refused(text: str, count: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        made = parse(f"executable = /bin/true\n{text}\nqueue {count}\n", env={}, cwd=Path("/tmp"), seed=1)
    except SubmitError as error:
        assert error.message
        return
    for cluster in made.clusters:
        assert cluster.job(cluster.count - 1)["Cmd"] is not None


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_values_do_not_depend_on_when_they_are_asked(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    case = Writer(seed).case()
    assert both.slotwise(case) == both.slotwise(case)


@given(
    count=st.integers(1, 30),
    words=st.lists(st.sampled_from(["a", "b", "c d", "e"]), min_size=1, max_size=5, unique=True),
)
@settings(max_examples=40, deadline=None)
def test_each_item_makes_count_jobs_and_deltas_restore_them(count: int, words: list[str]) -> None:
    items = "\n".join(words)
    text = f"executable = /bin/true\narguments = $(x) $(Process)\nqueue {count} x from (\n{items}\n)\n"
    (cluster,) = parse(text, env={}, cwd="/tmp").clusters
    assert cluster.count == count * len(words)
    expected = [f"{word} {number * count + step}" for number, word in enumerate(words) for step in range(count)]
    assert [cluster.job(proc)["Args"] for proc in range(cluster.count)] == expected
