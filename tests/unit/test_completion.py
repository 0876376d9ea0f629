"""Completion in shells, tried in those that are here; the parts of help that it is made of, and man pages."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from slotwise.cli import help_text, man
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.cli.man_of_docs import Page, text_of
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
    man.write(tmp_path, Path(__file__).parents[2] / "docs")
    pages = sorted(tmp_path.glob("man*/*"))
    assert {f"slotwise-{name}.1" for name in COMMANDS} <= {page.name for page in pages}
    for page in pages:
        assert page.read_text().startswith(".TH "), page.name
    if shutil.which("groff") is not None:
        words = ["groff", "-man", "-Tutf8", "-ww", "-z", *(str(page) for page in pages)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=2 * LIMIT_S, check=True)
        assert done.stderr == ""


def test_pages_of_files_and_languages_say_what_the_documentation_says(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "reference").mkdir(parents=True)
    (docs / "reference/submit.md").write_text(
        "# Commands\n\nGenerated from `x` by\n`python -m y z\nq`; do not edit.\n\n"
        "A `key` of **two** *words*, see [there](a.md).\n\n.dots at -beginnings\n\n## Left\n\nnothing of it\n\n"
        "## Table\n\n| Knob | Type | Meaning |\n| --- | --- | --- |\n"
        "| `A\\|B` | int (s) | How long. |\n\n- one\n- two\n\n```console\n$ ls\n.x\n```\n"
    )
    made = text_of(Page("slotwise-x", 5, "reference/submit.md", "a page", ("Left",)), docs)
    assert made.startswith('.TH "SLOTWISE\\-X" 5 ') and "do not edit" not in made and "nothing of it" not in made
    assert "A \\fBkey\\fR of \\fBtwo\\fR \\fIwords\\fR, see there." in made
    assert "\n\\&.dots at \\-beginnings\n.SH Table\n.TP\n\\fB\\fBA|B\\fB\\fR\nHow long. (Type: int (s))\n" in made
    assert ".IP \\[u2022] 2\none\n.IP \\[u2022] 2\ntwo\n" in made and ".nf\n$ ls\n\\&.x\n.fi" in made
    if shutil.which("groff") is not None and shutil.which("man") is not None:
        (tmp_path / "slotwise-x.5").write_text(made)
        shown = subprocess.run(["man", "-l", str(tmp_path / "slotwise-x.5")], capture_output=True, text=True,
                               env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80"}, check=True)  # fmt: skip
        assert "A|B    How long." in re.sub(".\b", "", shown.stdout)
