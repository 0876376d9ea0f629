"""Completion in shells, tried in those that are here; the parts of help that it is made of, and man pages."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from slotwise.cli import help_text, man
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.cli.registry import COMMANDS

from tests.support import host
from tests.support.waiting import LIMIT_S

#: What is typed, and words that are offered then.
TYPED = [
    (["slotwise", "su"], {"submit", "suspend"}),
    (["slotwise", "token", "cre"], {"create"}),
    (["slotwise", "q", "-better"], {"-better-analyze"}),
    (["slotwise", "q", "--better"], {"--better-analyze"}),
    (["condor_q", "-allu"], {"-allusers"}),
    (["/usr/bin/condor_vacate_job", "-fas"], {"-fast"}),
    (["slotwise", "drain", "-resu"], {"-resume-on-completion"}),
]


def script(shell: str) -> str:
    out = io.StringIO()
    assert dispatch(["completion", shell], Invocation(Path("/"), {}, io.StringIO(), out, io.StringIO())) == 0
    return out.getvalue()


def answer(shell: str, program: str, *words: str) -> str:
    host.need(host.programs(shell))
    done = subprocess.run([shell, "-c", program, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("words", "expected"), TYPED)
def test_bash_completes(tmp_path: Path, words: list[str], expected: set[str]) -> None:
    file = tmp_path / "slotwise.bash"
    file.write_text(script("bash"))
    program = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _slotwise; printf "%s\\n" "${COMPREPLY[@]}"'
    assert set(answer("bash", program, str(file), *words).split()) == expected


def test_bash_completes_names_of_knobs(tmp_path: Path) -> None:
    file = tmp_path / "slotwise.bash"
    file.write_text(script("bash"))
    dumped = "slotwise() { echo 'START = True'; echo 'STARTD_ATTRS = a'; echo 'x y = z'; }"
    program = f'source "$0"; {dumped}; COMP_WORDS=(slotwise config explain STARTD); COMP_CWORD=3; _slotwise; '
    assert answer("bash", program + 'printf "%s\\n" "${COMPREPLY[@]}"', str(file)).split() == ["STARTD_ATTRS"]


@pytest.mark.parametrize(("words", "expected"), [one for one in TYPED if not one[0][0].startswith("/")])
def test_fish_completes(tmp_path: Path, words: list[str], expected: set[str]) -> None:
    file = tmp_path / "slotwise.fish"
    file.write_text(script("fish"))
    found = answer("fish", f"source {file}; complete -C '{' '.join(words)}'")
    offered = {line.split("\t")[0] for line in found.splitlines()}
    assert offered >= expected


def test_zsh_understands_the_script(tmp_path: Path) -> None:
    file = tmp_path / "_slotwise"
    file.write_text(script("zsh"))
    answer("zsh", f"zsh -n {file}")


def test_help_is_taken_apart() -> None:
    parts = help_text.read(
        "usage: slotwise thing [options] FILE\n       slotwise thing -list\nDoes it.\nWhere\n"
        "  -name NAME        of this name\n                    and no other\n  -pool, -local\n"
    )
    assert parts.usage == ["slotwise thing [options] FILE", "slotwise thing -list"]
    assert parts.description == "Does it."
    assert [(section.heading, section.entries) for section in parts.sections] == [
        ("Where", [help_text.Entry("-name NAME", "of this name and no other"), help_text.Entry("-pool, -local")])
    ]
    assert parts.options == ["-list", "-local", "-name", "-pool"]


def test_each_command_has_a_man_page_that_groff_takes(tmp_path: Path) -> None:
    man.write(tmp_path)
    pages = sorted((tmp_path / "man1").iterdir())
    assert {f"slotwise-{name}.1" for name in COMMANDS} <= {page.name for page in pages}
    for page in pages:
        assert page.read_text().startswith(".TH "), page.name
    if shutil.which("groff") is not None:
        words = ["groff", "-man", "-Tutf8", "-ww", "-z", *(str(page) for page in pages)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=2 * LIMIT_S, check=True)
        assert done.stderr == ""
