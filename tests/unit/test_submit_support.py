"""Commands that Slotwise does not carry out are refused or warned about, never dropped in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise import _native
from slotwise.errors import SubmitError
from slotwise.submit import Submission, parse
from slotwise.submit.support import KEPT, RULES, Treatment, treatment

NAMES = {name for name, _, _ in _native.submit_commands()}


def made(*statements: str, cwd: Path) -> Submission:
    text = "\n".join(["executable = /bin/true", *statements, "queue", ""])
    return parse(text, filename="job.sub", cwd=cwd, env={}, owner="ann", now=1_700_000_000, check_support=True)


def test_the_table_speaks_of_commands_that_exist() -> None:
    named = {name for rule in RULES for name in rule.commands} | KEPT
    assert named <= NAMES, sorted(named - NAMES)
    for rule in RULES:
        assert rule.words and (rule.remedy or rule.treatment is Treatment.WARNED), rule.commands
    assert {treatment(name)[0] for name in NAMES} == set(Treatment)


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("docker_send_credentials = true", "registry"),
        ("cron_minute = 5", "deferral_time"),
        ("noop_job = true", "/bin/true"),
        ("log_xml = true", "take the command out"),
        ("output_destination = /tmp", "SCHEME"),
        ("manifest_dir = /tmp/lists", "a name"),
        ("manifest_dir = ../lists", "a name"),
        ("mount_under_scratch = /tmp", "MOUNT_UNDER_SCRATCH"),
        ("MY.SuspendJobAtExec = true", "take the command out"),
        ("suspend_job_at_exec = true", "take the command out"),
        ("use_scitokens = true\nscitokens_file = token", "transfer_input_files"),
        ("use_scitoken = $(YES)\nscitokens_file = token\nYES = true", "transfer_input_files"),
        ("scitokens_file = token", "transfer_input_files"),
        ("tool_daemon_cmd = gdbserver", "script"),
        ("stream_input = true\ninput = /etc/hostname", "take the command out"),
        ('+PreCmd = "pre.sh"', "script"),
        ('+PostCmd = "post.sh"', "script"),
    ],
)
def test_what_would_be_another_job_is_refused_by_name(statement: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(SubmitError) as caught:
        made(statement, cwd=tmp_path)
    said = str(caught.value)
    assert caught.value.key and caught.value.key.lower() in statement.lower() and remedy in said
    assert said.startswith("job.sub:"), "the line is named"


@pytest.mark.parametrize(
    "statement",
    ["submit_fail_empty_fields = true", "ulog_execute_attrs = Cpus"],
)
def test_courtesies_are_warned_about(statement: str, tmp_path: Path) -> None:
    name = statement.split()[0]
    (warning,) = [text for text in made(statement, cwd=tmp_path).warnings if name in text and "used" not in text]
    assert warning.startswith("job.sub:2: ")


@pytest.mark.parametrize(
    "statement",
    ["notification = never", "notification = always", "notify_user = ann",
     "stream_output = true\noutput = o", "transfer_error = false\nerror = e",
     "noop_job = false", "log_xml = false",
     "transfer_input_files = ", "encrypt_execute_directory = false", "load_profile = true",
     "submit_warn_empty_fields = false", "suspend_job_at_exec = false", "use_scitokens = false\nscitokens_file = token",
     "use_scitokens = auto", "encrypt_input_files = a", "dont_encrypt_output_files = b", "use_x509userproxy = false"],
)  # fmt: skip
def test_values_that_ask_for_nothing_are_no_matter(statement: str, tmp_path: Path) -> None:
    assert not [text for text in made(statement, cwd=tmp_path).warnings if "was not used" not in text]


def test_file_checks_can_be_skipped(tmp_path: Path) -> None:
    text = "executable = nowhere\nqueue\n"
    with pytest.raises(SubmitError):
        parse(text, cwd=tmp_path, env={})
    made = parse("skip_filechecks = true\n" + text, cwd=tmp_path, env={})
    assert (made.count, made.warnings) == (1, ())


@pytest.mark.parametrize(
    ("statements", "word"),
    [
        (["universe = docker", "docker_image = debian", "docker_pull_policy = never"], "the only policy is always"),
        (["universe = docker", "docker_image = debian", "docker_pull_policy = Always"], ""),
        (["universe = vm", "vm_type = kvm", "vm_memory = 64", "vm_disk = a:vda:w", "vm_macaddr = zz"], "will be held"),
        (
            ["universe = vm", "vm_type = kvm", "vm_memory = 64", "vm_disk = a:vda:w", "vm_macaddr = 52:54:00:1a:34:56"],
            "",
        ),
    ],
)
def test_values_without_effect_are_warned_about(tmp_path: Path, statements: list[str], word: str) -> None:
    said = [text for text in made(*statements, "request_memory = 64", cwd=tmp_path).warnings if "=" in text]
    assert [word in text for text in said] == ([True] if word else []), said
