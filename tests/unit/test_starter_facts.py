"""Arguments, environments and ads as the starter reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad.values import Value
from slotwise.errors import UsageError
from slotwise.execution import arguments, environment
from slotwise.execution.environment import EnvironmentSettings, Places
from slotwise.execution.job_view import JobView, SlotView, read_job, read_slot, signal_number
from slotwise.home import PoolHome
from slotwise.starter.settings import read_settings
from slotwise.starter.transfer import plugins

from tests.support.configured import configured


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("a b  c", ["a", "b", "c"]),
        ("'a b' c", ["a b", "c"]),
        ("it''s", ["its"]),
        ("'it''s' fine", ["it's", "fine"]),
        ("pre'in side'post", ["prein sidepost"]),
        ("''", [""]),
        ('say "hi"', ["say", '"hi"']),
        ("a\tb\nc", ["a", "b", "c"]),
    ],
)
def test_new_syntax(text: str, words: list[str]) -> None:
    assert arguments.split_new(text) == words


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(UsageError, match="unbalanced"):
        arguments.split_new("a 'b c")


@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=12)))
def test_any_words_survive_the_new_syntax(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "''") + "'" for word in words)
    assert arguments.split_new(quoted) == words


def test_old_environment_ends_entries_at_the_delimiter() -> None:
    assert arguments.environment_old("A=1;B=two words;;C=") == {"A": "1", "B": "two words", "C": ""}
    assert arguments.environment_old("A=1|B=2;3", "|") == {"A": "1", "B": "2;3"}


def test_configured_environment_in_either_syntax() -> None:
    assert arguments.environment_either("A=1;B=2") == {"A": "1", "B": "2"}
    assert arguments.environment_either('"A=\'x y\' B=""q"""') == {"A": "x y", "B": '"q"'}


def test_an_entry_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError):
        arguments.environment_new("=1")


def job(**ad: object) -> JobView:
    return read_job(ad.get, "ann@here")


def test_a_job_ad_is_read() -> None:
    found = job(
        ClusterId=3,
        ProcId=1,
        Cmd="/bin/x",
        Arguments="a 'b c'",
        Environment="X=1",
        KillSig="SIGUSR1",
        RemoveKillSig=9,
        TransferOutput="a, b/c ,",
        JobMaxVacateTime=30,
        User="ann@there",
    )
    assert (found.job_id, found.arguments, dict(found.environment)) == ("3.1", ("a", "b c"), {"X": "1"})
    assert (found.kill.soft, found.kill.remove, found.kill.hold, found.kill.vacate_s) == (10, 9, None, 30)
    assert found.transfer.output_files == ("a", "b/c")
    assert found.owner == "ann"


def test_old_attributes_serve_when_the_new_are_missing() -> None:
    found = job(Args="a 'b c'", Env="X=1;Y=2")
    assert found.arguments == ("a", "'b", "c'")
    assert dict(found.environment) == {"X": "1", "Y": "2"}


def test_no_list_of_outputs_differs_from_an_empty_one() -> None:
    assert job().transfer.output_files is None
    assert job(TransferOutput="").transfer.output_files == ()


@pytest.mark.parametrize(("text", "number"), [("SIGTERM", 15), ("term", 15), ("9", 9), (" usr2 ", 12)])
def test_signals_by_name_and_number(text: str, number: int) -> None:
    assert signal_number(text) == number


def test_an_unknown_signal_is_refused() -> None:
    with pytest.raises(UsageError):
        signal_number("SIGNOPE")


@pytest.mark.parametrize("number", [9_999_999_999, -1, 65, "99", "²"])
def test_a_number_that_is_not_a_signals_is_refused(number: object) -> None:
    """No keeper could read it, and nobody could end the family of its job."""
    for name in ("KillSig", "RemoveKillSig", "HoldKillSig"):
        with pytest.raises(UsageError, match="there is no signal"):
            job(**{name: number})


@pytest.mark.parametrize(("asked", "seconds"), [(1e999, None), (1e30, 2**31 - 1), (-5, 0)])
def test_times_to_leave_that_nobody_can_count(asked: float, seconds: int | None) -> None:
    assert job(JobMaxVacateTime=asked).kill.vacate_s == seconds
    assert job(MaxTransferOutputMB=1e999, DeferralTime=1e999).transfer.max_output_mib == -1


def test_devices_of_a_slot() -> None:
    slot = read_slot({"Cpus": 2, "MachineResources": "Cpus GPUs", "AssignedGPUs": "CUDA0,CUDA1"}.get, "slot1@h")
    assert (slot.cpus, dict(slot.assigned)) == (2, {"GPUs": "CUDA0,CUDA1"})


PLACES = Places("/x/scratch", "/x/htcondor/.job.ad", "/x/htcondor/.machine.ad", "/x/scratch")


def build(
    facts: JobView, slot: SlotView | None = None, settings: EnvironmentSettings | None = None, home: str = "/home/a"
) -> dict[str, str]:
    slot = slot or SlotView("slot1_1@h", cpus=4)
    return environment.build(facts, slot, PLACES, settings or EnvironmentSettings(), home=home, marker="_M=1")


def test_what_every_job_gets() -> None:
    env = build(job())
    assert env["_CONDOR_SCRATCH_DIR"] == env["TMPDIR"] == env["TEMP"] == env["TMP"] == "/x/scratch"
    assert (env["_CONDOR_SLOT"], env["BATCH_SYSTEM"], env["HOME"], env["_M"]) == (
        "slot1_1", "HTCondor", "/home/a", "1",
    )  # fmt: skip
    assert env["_CONDOR_JOB_AD"] == "/x/htcondor/.job.ad"


def test_the_job_s_own_values_stay() -> None:
    env = build(job(Environment="TMPDIR=/mine HOME=/h OMP_NUM_THREADS=1"), settings=EnvironmentSettings(
        thread_variables=("OMP_NUM_THREADS", "GOMAXPROCS")
    ))  # fmt: skip
    assert (env["TMPDIR"], env["HOME"], env["OMP_NUM_THREADS"], env["GOMAXPROCS"]) == ("/mine", "/h", "1", "4")
    assert env["TEMP"] == "/x/scratch"


def test_the_scratch_text_is_replaced_in_values() -> None:
    assert build(job(Environment="D=#CoNdOrScRaTcHdIr#/sub"))["D"] == "/x/scratch/sub"


def test_order_of_sources() -> None:
    settings = EnvironmentSettings(inherited={"A": "0", "B": "0", "C": "0"}, extra={"B": "1", "C": "1"})
    env = build(job(Environment="C=2"), settings=settings)
    assert (env["A"], env["B"], env["C"]) == ("0", "1", "2")


def test_inherited_environment_by_rule() -> None:
    own = {"PATH": "/bin", "LC_ALL": "C", "LC_TIME": "C", "SLOTWISE_HOME": "/p"}
    assert environment.inherited_part("false", own) == {}
    assert environment.inherited_part("true", own) == {"PATH": "/bin", "LC_ALL": "C", "LC_TIME": "C"}
    assert set(environment.inherited_part("LC_*, path", own)) == {"LC_ALL", "LC_TIME", "PATH"}
    assert set(environment.inherited_part("*", own)) == {"LC_ALL", "LC_TIME", "PATH"}  # ours are never a job's


def gpus(template: str, devices: str | None = "CUDA0,CUDA1", unassigned: str = "none") -> dict[str, str]:
    assigned = {} if devices is None else {"GPUs": devices}
    slot = SlotView("s", machine_resources=("Cpus", "GPUs"), assigned=assigned)
    settings = EnvironmentSettings(assigned={"gpus": template}, unassigned={"gpus": unassigned})
    return environment.assigned_devices(slot, settings)


def test_device_variables() -> None:
    env = gpus("GPU_NAME_ID_PREFIX=/CUDA/Gpu_/ CUDA_VISIBLE_DEVICES")
    assert env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert env["GPU_NAME_ID_PREFIX"] == "Gpu_0,Gpu_1"
    assert env["_CONDOR_AssignedGPUs"] == env["NVIDIA_VISIBLE_DEVICES"] == "CUDA0,CUDA1"


@pytest.mark.parametrize(
    ("template", "variables", "fault"),
    [
        ("X", {"X": "CUDA0,CUDA1"}, ""),
        ("9X", {"9X": "CUDA0,CUDA1"}, ""),
        ("X=/CUDA(.*)/$1$2/, Y", {"X": "0,1", "Y": "CUDA0,CUDA1"}, ""),
        (r"X=/CUDA(.*)/\1/", {"X": r"\1,\1"}, ""),  # as in HTCondor, a back-slash means itself
        ("X = #CUDA#dev# Y=/A/a/", {"X": "dev0,dev1", "Y": "CUDa0,CUDa1"}, ""),
        ("CUDA_VISIBLE_DEVICES=", {}, "'CUDA_VISIBLE_DEVICES=' is neither NAME nor"),
        ("X=/CUDA/dev", {}, "X needs /pattern/replacement/"),
        ("X=abc", {}, "X needs /pattern/replacement/"),
        ("Y=/A/a/ X=/(/y/ Z", {"Y": "CUDa0,CUDa1"}, "'(' of X is not a regular expression"),
        ("=/a/b/", {}, "'=/a/b/' is neither NAME nor"),
        ("A, B", {}, "'A, B' is neither NAME nor"),
        ('"X"', {}, "'\"X\"' is neither NAME nor"),
    ],
)
def test_what_is_no_variable_for_devices_is_said(template: str, variables: dict[str, str], fault: str) -> None:
    env = gpus(template)
    usual = {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "NVIDIA_VISIBLE_DEVICES", "_CONDOR_AssignedGPUs"}
    assert {name: text for name, text in env.items() if name not in usual} == variables
    assert environment.template_fault(template).startswith(fault)
    assert bool(environment.template_fault(template)) is bool(fault)


def test_gpus_are_named_and_hidden_without_any_knob(tmp_path: Path) -> None:
    def env(devices: str | None, **knobs: str) -> dict[str, str]:
        settings = read_settings(configured(**knobs), PoolHome(tmp_path), {}).environment
        slot = SlotView("s", machine_resources=("Cpus", "GPUs"), assigned={"GPUs": devices} if devices else {})
        return environment.assigned_devices(slot, settings)

    named = env("CUDA0,CUDA1")
    assert (named["CUDA_VISIBLE_DEVICES"], named["GPU_DEVICE_ORDINAL"]) == ("0,1", "0,1")
    assert env("GPU-bbbb2222")["CUDA_VISIBLE_DEVICES"] == "GPU-bbbb2222"
    assert (env(None)["CUDA_VISIBLE_DEVICES"], env(None)["NVIDIA_VISIBLE_DEVICES"]) == ("10000", "none")
    assert env("CUDA0", ENVIRONMENT_FOR_ASSIGNEDGPUS="MINE")["MINE"] == "CUDA0"


@pytest.mark.parametrize(
    ("assigned", "uuids", "template", "expected"),
    [
        # What HTCondor 25.14.1 gave to jobs: by id, by index (-by-index), with a template of the administrator's.
        ("GPU-a0223334", ("a0223334-4445-5667-899a-abbccddeeff0",), "", "GPU-a0223334-4445-5667-899a-abbccddeeff0"),
        ("CUDA0,CUDA1", ("a0-1", "b1-2"), "CUDA_VISIBLE_DEVICES", "GPU-a0-1,GPU-b1-2"),
        ("GPU-a0", ("a0-1",), "MINE", "GPU-a0-1"),
        ("MIG-5d", ("MIG-5d1f-2",), "CUDA_VISIBLE_DEVICES", "MIG-5d1f-2"),
        ("GPU-a0,GPU-a0", ("a0-1",), "", "GPU-a0-1"),
    ],
)
def test_programs_are_told_whole_uuids(assigned: str, uuids: tuple[str, ...], template: str, expected: str) -> None:
    names = dict.fromkeys(assigned.split(","))
    ad: dict[str, Value] = {"MachineResources": "Cpus GPUs", "AssignedGPUs": assigned}
    devices = zip(names, uuids, strict=True)
    ad |= {f"GPUs_{name.replace('-', '_')}": {"DeviceUuid": uuid} for name, uuid in devices}
    slot = read_slot(ad.get, "s")
    env = environment.assigned_devices(slot, EnvironmentSettings(assigned={"gpus": template}))
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == expected
    assert env["_CONDOR_AssignedGPUs"] == assigned
    if template == "MINE":
        assert env["MINE"] == assigned


def test_a_device_without_uuid_is_named_as_the_slot_does() -> None:
    slot = read_slot({"MachineResources": "Cpus GPUs", "AssignedGPUs": "CUDA0"}.get, "s")
    assert environment.assigned_devices(slot, EnvironmentSettings())["NVIDIA_VISIBLE_DEVICES"] == "CUDA0"


def test_device_groups_in_replacements() -> None:
    assert gpus("X=/^(\\w)\\w+(\\d)$/$2-$1/")["X"] == "0-C,1-C"


def test_a_slot_without_devices_hides_them() -> None:
    env = gpus("CUDA_VISIBLE_DEVICES", devices=None, unassigned="10000")
    assert env["CUDA_VISIBLE_DEVICES"] == "10000"
    assert gpus("", devices="")["NVIDIA_VISIBLE_DEVICES"] == "none"


def test_plugins_get_no_token_of_who_started_the_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job names the server that it would be sent to, or brings the program that reads it."""
    for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "SITE_KEY", "https_proxy", "NO_PROXY", "LC_ALL", "_CONDOR_X"):
        monkeypatch.setenv(name, "set")
    sites, jobs = plugins.inherited(), plugins.inherited(jobs_own=True)
    both = {"BEARER_TOKEN", "BEARER_TOKEN_FILE", "_CONDOR_X"}
    assert not both & sites.keys() and not both & jobs.keys()
    assert {"SITE_KEY", "https_proxy", "NO_PROXY", "LC_ALL", "PATH"} <= sites.keys()
    assert {"https_proxy", "NO_PROXY", "LC_ALL", "PATH"} <= jobs.keys() and "SITE_KEY" not in jobs
