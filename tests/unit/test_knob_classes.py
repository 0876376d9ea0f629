# ruff: noqa: E501
"""Every knob is honoured, or has a rule that says what is lost, or is unknown; which one follows from the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
import slotwise
from slotwise.config import Config, Problem, check, find_knob, knobs, load, require_sound
from slotwise.config.unsupported import RULES, Effect, rule_of
from slotwise.errors import ConfigError

from tests.unit.test_knob_defaults import is_read, may_read, name_of

PYTHON = Path(slotwise.__file__).parent
RUST = Path(__file__).parents[2] / "rust"
#: Modules that name knobs without reading them.
_ABOUT = {"unsupported.py", "checking.py", "explaining.py", "document.py"}
#: Names that are read and that no administrator writes.
_FACTS = {"full_hostname"}


def names_of(node: ast.expr) -> str | None:
    """A text with ``*`` for what is put in; None for what is not a text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join("*" if isinstance(part, ast.FormattedValue) else str(part.value) for part in node.values)  # type: ignore[attr-defined]
    return None


def texts_in(path: Path) -> Iterator[str]:
    """All texts of a module but those that stand alone, such as docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in alone and (text := names_of(node)):
            yield text


@lru_cache(maxsize=1)
def in_code() -> frozenset[str]:
    """What the code says that may be the name of a knob, in lower case, with ``*`` for what is put in."""
    found = {text for path in PYTHON.rglob("*.py") if path.name not in _ABOUT for text in texts_in(path)}
    for path in [*(RUST / "negotiator/src/config").rglob("*.rs"), *(RUST / "config/src").rglob("*.rs")]:
        source = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
        found.update(re.sub(r"\{[^}]*\}", "*", text) for text in re.findall(r'"([A-Za-z_{}0-9]+)"', source))
    # A text that ends in an underscore is the beginning of names.
    found = {re.sub(r"<\w+>", "*", text) + ("*" if text.endswith("_") else "") for text in found}
    plain = {text.lower() for text in found if re.fullmatch(r"[A-Za-z0-9_*.]+", text)}
    return frozenset(text for text in plain if len(text.replace("*", "").strip("_")) > 2)


@lru_cache(maxsize=1)
def reads() -> frozenset[str]:
    """Names that the code reads in so many words, in lower case."""
    found = set()
    for path in PYTHON.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if not may_read(source) and "members" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and node.args and (is_read(node) or name_of(node.func) == "members"):
                name = names_of(node.args[0])
                if name and re.fullmatch(r"[A-Za-z0-9_<>]{3,}", name) and "<" not in name:
                    found.add(name.lower())
    for path in (RUST / "negotiator/src/config").rglob("*.rs"):
        found.update(
            m.lower() for m in re.findall(r'knobs\s*\.(?!given)\w+\(\s*"([A-Z_]+)"', path.read_text()) if m[-1] != "_"
        )
    return frozenset(found)


@lru_cache(maxsize=1)
def families() -> re.Pattern[str]:
    """What matches a name that the code puts together."""
    return re.compile("|".join(text.replace(".", r"\.").replace("*", ".*") for text in in_code() if "*" in text))


def is_in_code(name: str) -> bool:
    """Whether the code names a knob, by itself or as a member of a family."""
    name = re.sub(r"<\w+>", "x", name).lower()
    return name in in_code() or families().fullmatch(name) is not None


def referred() -> set[str]:
    """Names that defaults of knobs refer to, in lower case."""
    return {name.lower() for knob in knobs() for name in re.findall(r"\$\((\w+)", knob.default or "")}


def test_what_the_table_calls_used_is_in_the_code() -> None:
    assert len(in_code()) > 1000
    by_reference = referred()
    lies = [k.name for k in knobs() if k.used and not is_in_code(k.name) and k.name.lower() not in by_reference]
    assert lies == [], "nothing reads these"


def test_what_the_code_reads_is_called_used() -> None:
    assert len(reads()) > 250
    lies = [name for name in reads() - _FACTS if (knob := find_knob(name)) is None or not knob.used]
    assert lies == [], "describe these in rust/config/data/slotwise.tsv"


def test_what_is_not_used_has_a_rule() -> None:
    names = [re.sub(r"<\w+>", "x", knob.name.rpartition(".")[2]) for knob in knobs() if not knob.used]
    assert [name for name in names if rule_of(name) is None] == [], "classify these in slotwise/config/unsupported.py"


def test_knobs_of_dags_that_htcondors_table_lacks_are_followed_or_have_a_rule() -> None:
    names = (
        "DAGMAN_AVOID_SLASH_TMP", "DAGMAN_DEBUG_PARSE_TIMING", "DAGMAN_DISABLE_ADMIN_THROTTLE_LIMITING",
        "DAGMAN_DISABLE_PORT", "DAGMAN_INHERIT_ATTRS", "DAGMAN_INHERIT_ATTRS_PREFIX", "DAGMAN_METRICS_FILE_VERSION",
        "DAGMAN_NODE_JOB_FAILURE_TOLERANCE", "DAGMAN_PRINT_JOB_TABLE_INTERVAL", "DAGMAN_PRODUCE_JOB_CREDENTIALS",
        "DAGMAN_REMOVE_JOB_LIST_ON_FAILURE", "DAGMAN_REMOVE_TEMP_SUBMIT_FILES", "DAGMAN_USE_OLD_FILE_PARSER",
    )  # fmt: skip
    followed = {name for name in names if (knob := find_knob(name)) is not None and knob.used}
    assert [name for name in names if name not in followed and rule_of(name) is None] == []


def test_no_rule_speaks_of_a_knob_that_the_code_reads() -> None:
    serious = [rule for rule in RULES if rule.effect is not Effect.NONE]
    read = [name for name in reads() if (rule := rule_of(name)) in serious and rule is not None]
    assert [name for name in read if (knob := find_knob(name)) is None or not knob.used] == []


def test_no_rule_speaks_of_a_knob_that_the_table_calls_used() -> None:
    read = [re.sub(r"<\w+>", "x", knob.name.rpartition(".")[2]) for knob in knobs() if knob.used]
    assert [name for name in read if (rule := rule_of(name)) is not None and rule.effect is not Effect.NONE] == []


def test_families_and_forms_are_of_their_knobs() -> None:
    of = {
        "SLOT1_PREEMPT_VANILLA": "PREEMPT", "SLOT_TYPE_2_START": "START", "START_VM": "START",
        "SLOT2_CONSUMPTION_gpus": "CONSUMPTION_<RESOURCE>", "GROUP_QUOTA_group_a.b": "GROUP_QUOTA_<GROUP>",
        "STARTD.SLOT1_START": "START", "SCHEDD_LOG": "SCHEDD_LOG", "STARTD_CRON_probe_PERIOD": "STARTD_CRON_<JOB>_PERIOD",
    }  # fmt: skip
    assert {name: knob.name for name in of if (knob := find_knob(name)) is not None and knob.used} == of
    for name in ("SLOT1_POLLING_INTERVAL", "NEGOTIATR_LOG", "POLLING_INTERVAL_VANILLA", "OFFLINE_LOG_X"):
        assert find_knob(name) is None, name


# ------------------------------------------------------------------------------------------------------- what is told


def configuration(tmp_path: Path, text: str) -> Config:
    """What a master reads from a file."""
    path = tmp_path / "condor_config"
    path.write_text(text)
    return load(path, subsystem="MASTER", env={}, cwd=tmp_path)


def told(tmp_path: Path, text: str) -> dict[str, Problem]:
    """Problems of a configuration, by knob."""
    return {problem.name: problem for problem in check(configuration(tmp_path, text), notes=True)}


@pytest.mark.parametrize(
    "text",
    [
        "GLEXEC_JOB = True",
        "LIMIT_DIRECTORY_ACCESS = /home/me/ok",
        "NAMED_CHROOT = /a=/b",
        "DENY_CLIENT = *", "HOSTDENY_ADMINISTRATOR_STARTD = a", "ALLOW_CLIENT = *.example.org", "STARTD.GLEXEC_JOB = true",
        "NO_JOB_NETWORKING = true",
    ],
)  # fmt: skip
def test_promises_of_isolation_and_refusal_keep_the_pool_from_starting(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        require_sound(configuration(tmp_path, text + "\n"))
    assert refusal.value.code == "config-not-honoured"
    name = refusal.value.key.split(".")[-1]
    assert f"SLOTWISE_IGNORE_UNSUPPORTED = {name}" in str(refusal.value.hint)
    every = " ".join(problem.name.split(".")[-1] for problem in told(tmp_path, text).values() if problem.name)
    doubts = require_sound(configuration(tmp_path, f"{text}\nSLOTWISE_IGNORE_UNSUPPORTED = {every}\n"))
    assert any(doubt.name.endswith(name) and doubt.severity == "warning" for doubt in doubts)


@pytest.mark.parametrize(
    "text",
    [
        "SINGULARITY_JOB = false", "ENCRYPT_EXECUTE_DIRECTORY = False", "ALLOW_READ = *", "ALLOW_WRITE = *", "DENY_READ =",
        "SUBMIT_REQUIREMENT_NAMES =", "JOB_TRANSFORM_NAMES = $(JOB_TRANSFORM_NAMES)", "SEC_DEFAULT_AUTHENTICATION = required",
        "ALLOW_ADMINISTRATOR = root@*, condor@*", "ALLOW_PSLOT_PREEMPTION = true", "SYSTEM_SECURE_JOB_ATTRS =",
        "use SECURITY : recommended", "use SECURITY : recommended_v9_0", "use SECURITY : STRONG",
        "use SECURITY : USER_BASED", "use ROLE : Personal", "use ROLE : CentralManager", "use ROLE : Execute",
        "use ROLE : Submit", "use ROLE : get_htcondor_submit", "use POLICY : Desktop", "use FEATURE : PartitionableSlot",
        "use FEATURE : AssignAccountingGroup(/dev/null)", "SUBMIT_REQUIREMENT_NAMES = A\nSUBMIT_REQUIREMENT_A = true",
    ],
)  # fmt: skip
def test_what_is_off_or_done_anyway_is_fine(tmp_path: Path, text: str) -> None:
    serious = {
        name: str(p) for name, p in told(tmp_path, f"CONDOR_HOST = cm\n{text}\n").items() if p.severity != "note"
    }
    assert serious == {}


def test_the_configuration_of_a_package_starts(tmp_path: Path) -> None:
    text = (
        "RELEASE_DIR = /usr\nLOCAL_DIR = /var\nREQUIRE_LOCAL_CONFIG_FILE = false\nRUN = $(LOCAL_DIR)/run/condor\n"
        "LOG = $(LOCAL_DIR)/log/condor\nLOCK = $(LOCAL_DIR)/lock/condor\nSPOOL = $(LOCAL_DIR)/spool/condor\n"
        "EXECUTE = $(LOCAL_DIR)/lib/condor/execute\nCRED_STORE_DIR = $(LOCAL_DIR)/lib/condor/cred_dir\nETC = /etc/condor\n"
        "BIN = $(RELEASE_DIR)/bin\nLIB = $(RELEASE_DIR)/lib/condor\nINCLUDE = $(RELEASE_DIR)/include/condor\n"
        "SBIN = $(RELEASE_DIR)/sbin\nLIBEXEC = $(RELEASE_DIR)/libexec/condor\nSHARE = $(RELEASE_DIR)/share/condor\n"
        "SINGULARITY = /usr/bin/singularity\nGANGLIA_LIB64_PATH = /lib,/usr/lib\nuse security:recommended\n"
    )
    (note,) = require_sound(configuration(tmp_path, text))
    assert note.severity == "note" and "without effect: CRED_STORE_DIR" in note.message


@pytest.mark.parametrize(
    "text",
    [
        "A_HOOK_REPLY_CLAIM = /a", "FLOCK_TO = cm", "DOCKER_PAT_PRODUCER = /a",
        "DOCKER_NETWORK_NAME = docker1", "VM_MAX_MEMORY = 5", "COLLECTOR_DAEMON_HISTORY = /x",
        "SUBMITTER_ATTRS = a", "DAEMON_LIST = MASTER, HAD",
    ],
)  # fmt: skip
def test_policies_and_services_without_effect_are_warned_about(tmp_path: Path, text: str) -> None:
    name = text.split(" ")[0]
    assert told(tmp_path, text + "\n")[name].severity == "warning"
    assert any(doubt.name == name for doubt in require_sound(configuration(tmp_path, text + "\n")))


@pytest.mark.parametrize("knob", ["USE_PROCD", "PROCD_LOG", "STARTD_CRON_NAME", "BOINC_Universe"])
def test_old_names_that_change_nothing_are_a_note(tmp_path: Path, knob: str) -> None:
    assert told(tmp_path, f"{knob} = false\n")[knob].severity == "note"


def test_harmless_ones_are_a_note(tmp_path: Path) -> None:
    assert told(tmp_path, "SMTP_SERVER = mail\n")["SMTP_SERVER"].severity == "note"


@pytest.mark.parametrize(
    "first", ["", "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD\n", "use ROLE : Execute\n"]
)
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("STARTD_ATRS", "STARTD_ATTRS"), ("NEGOTIATOR_INTERVALL", "NEGOTIATOR_INTERVAL"),
        ("STARTD_CRON_JOBLISTT", "STARTD_CRON_JOBLIST"), ("STARTER_ALLOW_RUNAS_OWNR", "STARTER_ALLOW_RUNAS_OWNER"),
        ("NUM_SLOT_TYPE_1", "NUM_SLOTS_TYPE_1"), ("SLOT_TYPE_1_STRT", "SLOT_TYPE_1_START"), ("SLOT2_RNK", "SLOT2_RANK"),
        ("START_VANILA", "START_VANILLA"), ("ALOW_WRITE", "ALLOW_WRITE"), ("DENY_DAEMONS", "DENY_DAEMON"),
        ("NAMED_CHROT", "NAMED_CHROOT"), ("JOB_TRANSFORM_NAMS", "JOB_TRANSFORM_NAMES"),
        ("SUBMIT_REQUIREMENT_NAME", "SUBMIT_REQUIREMENT_NAMES"), ("STARTD_CRON_A_PERIODE", "STARTD_CRON_A_PERIOD"),
    ],
)  # fmt: skip
def test_misspelt_knobs_are_found_whatever_the_daemons(tmp_path: Path, first: str, name: str, meant: str) -> None:
    problem = told(tmp_path, f"{first}{name} = 1\n")[name]
    assert (problem.severity, problem.hint) == ("warning", f"did you mean {meant}?")


@pytest.mark.parametrize("name", ["SLOT_TYPE_1_CPUS", "SLOT1_CPUS", "SLOT_TYPE_1_Colour"])
def test_a_setting_of_slots_that_does_not_exist_is_named(tmp_path: Path, name: str) -> None:
    problem = told(tmp_path, f"SLOT_TYPE_1 = 50%\nSTARTD_ATTRS = Shade\nSLOT1_Shade = 1\n{name} = 1\n")[name]
    assert problem.severity == "warning" and f"there is no knob {name}" in problem.message
    assert ("cpus=2" in problem.hint) == name.endswith("CPUS")


def test_names_that_the_administrator_makes_are_recognized(tmp_path: Path) -> None:
    text = (
        "STARTD_ATTRS = Color\nColor = 1\nSLOT2_Color = 2\nSLOT_TYPE_1_Color = 3\nSTARTD_CRON_JOBLIST = Probe\n"
        "STARTD_CRON_Probe_EXECUTABLE = /bin/true\nSTARTD_CRON_Probe_PERIOD = 1m\nSLOT_TYPE_1 = 50%\nFOO_HOOK_PREPARE_JOB = /a\n"
        "GROUP_NAMES = group_a, group_a.b\nGROUP_QUOTA_group_a.b = 3\nlicense_LIMIT = 4\nMINE = 1\nSTART = $(MINE)\n"
        "DAEMON_LIST = MASTER MYD\nMYD = /bin/x\nMYD_ARGS = -f\nMYD_LOG = /x\nENVIRONMENT_FOR_AssignedGPUs = A\n"
    )
    found = {name: str(problem) for name, problem in told(tmp_path, text).items() if name != "DAEMON_LIST"}
    assert found == {}


@pytest.mark.parametrize("name", ["START_VANILLA", "SLOT1_PREEMPT", "SLOT_TYPE_1_START", "SLOT2_WANT_HOLD_VANILLA"])
def test_expressions_of_all_forms_are_checked(tmp_path: Path, name: str) -> None:
    assert told(tmp_path, f"{name} = (\n")[name].code == "config-bad-expression"


def test_a_bare_list_of_directories_is_a_value_of_mount_under_scratch(tmp_path: Path) -> None:
    assert told(tmp_path, "MOUNT_UNDER_SCRATCH = /tmp, /var/tmp\n") == {}
    assert told(tmp_path, 'MOUNT_UNDER_SCRATCH = strcat("/tmp"\n')["MOUNT_UNDER_SCRATCH"].severity == "error"


def test_promises_that_are_ignored_in_vain_are_named(tmp_path: Path) -> None:
    text = "SLOTWISE_IGNORE_UNSUPPORTED = GLEXEC_JBO, GLEXEC_JOB ALLOW_* DENY_CLIENT MAX_JOBS_RUNNING\n"
    assert "names GLEXEC_JBO, MAX_JOBS_RUNNING, which" in str(told(tmp_path, text)["SLOTWISE_IGNORE_UNSUPPORTED"])


def test_policies_that_are_listed_and_not_defined_are_named(tmp_path: Path) -> None:
    text = "SYSTEM_PERIODIC_HOLD_NAMES = Disk Memory\nSYSTEM_PERIODIC_HOLD_Disk = false\n"
    problem = told(tmp_path, text)["SYSTEM_PERIODIC_HOLD_NAMES"]
    assert (problem.severity, problem.message.rpartition(": ")[2]) == ("warning", "SYSTEM_PERIODIC_HOLD_Memory")
