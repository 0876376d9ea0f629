"""``slotwise classad``."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.host.classad import main
from slotwise.errors import AdSyntaxError, SlotwiseError, UsageError


class Caller:
    """Runs the command as from a directory, with a text as standard input."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.told = ""

    def __call__(self, *args: str, stdin: str = "") -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        inv = Invocation(cwd=self.cwd, env={}, stdin=io.StringIO(stdin), stdout=out, stderr=err)
        status = main(list(args), inv)
        self.told = err.getvalue()
        return status, out.getvalue()


@pytest.fixture
def run(tmp_path: Path) -> Caller:
    (tmp_path / "job").write_text('RequestCpus = 2\nRequirements = TARGET.Cpus >= RequestCpus && Arch == "X"\n')
    (tmp_path / "good").write_text('[ Cpus = 4; Arch = "X"; Requirements = true ]')
    (tmp_path / "bad").write_text('{"Cpus": 4, "Arch": "Y", "Requirements": true}')
    return Caller(tmp_path)


def test_eval(run: Caller) -> None:
    assert run("eval", "1 + 1", 'strcat("a", 1)', "nosuch") == (0, '2\n"a1"\nundefined\n')
    assert run("eval", "--my", "job", "--target", "good", "Requirements") == (0, "true\n")
    assert run("eval", "--json", "{ 1, [ a = undefined ] }") == (0, '[1, {"a": null}]\n')
    assert run("eval", "--strict", "017") == (0, "17\n")


def test_fmt(run: Caller) -> None:
    assert run("fmt", "a+b") == (0, "a + b\n")
    assert run("fmt", stdin="a=?=1\n\n(b)\n") == (0, "a is 1\n(b)\n")


def test_match_names_the_clause_that_fails(run: Caller) -> None:
    status, text = run("match", "job", "good")
    assert (status, text.splitlines()[0]) == (0, "match")
    status, text = run("match", "job", "bad")
    assert status == 1
    assert '  FAILS Arch == "X"  is false' in text
    assert "bad accepts job" in text
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("job, line "))
    assert "^" * len('Arch == "X"') in lines[at + 2]
    assert lines[at + 1][lines[at + 2].index("^") :].startswith('Arch == "X"')
    _, text = run("match", "job", "bad", "--json")
    answer = json.loads(text)
    assert (answer["matches"], answer["left"]["accepts"], answer["right"]["accepts"]) == (False, False, True)


@pytest.mark.parametrize("target", ["old", "new", "json", "xml"])
def test_ads_are_converted_and_read_again(run: Caller, target: str) -> None:
    status, text = run("ads", "--to", target, "job")
    assert status == 0
    assert run("ads", "--to", "old", stdin=text) == run("ads", "--to", "old", "job")


def test_jsonl_forms(run: Caller) -> None:
    cases = [
        {"id": 1, "my": "[ a = 1 ]", "target": None, "expr": "a + 0.5"},
        {"id": 2, "my": None, "target": None, "expr": "1 +"},
        {"id": 3, "my": None, "target": None, "expr": "random(0)"},
    ]
    _, text = run("eval", "--jsonl", stdin="".join(json.dumps(case) + "\n" for case in cases))
    assert [json.loads(line) for line in text.splitlines()] == [
        {"id": 1, "type": "real", "value": "1.5"},
        {"id": 2, "parse_error": True},
        {"id": 3, "type": "error", "value": "error", "raised": True},
    ]
    _, text = run("eval", "--jsonl", "--strict", stdin='{"id": 1, "my": null, "target": null, "expr": "017"}\n')
    assert json.loads(text)["value"] == "17"
    _, text = run("fmt", "--jsonl", "--strict", stdin='{"id": 1, "expr": "{017}"}\n')
    assert json.loads(text)["value"] == "{ 17 }"
    _, text = run("ads", "--jsonl", "--strict", stdin='{"id": 1, "format": "old", "text": "a = 0x1F\\n"}\n')
    assert json.loads(text)["ads"][0]["attrs"] == {"a": "0"}
    _, text = run("fmt", "--jsonl", stdin='{"id": 1, "expr": "a+1"}\n')
    assert json.loads(text) == {"id": 1, "value": "a + 1"}
    _, text = run("ads", "--jsonl", stdin='{"id": 1, "format": "old", "text": "a = 1\\n"}\n')
    (ad,) = json.loads(text)["ads"]
    assert ad["attrs"] == {"a": "1"}
    assert set(ad) == {"attrs", "new", "old", "json", "pretty"}


def test_a_line_that_is_no_case_is_named_and_the_others_are_answered(run: Caller) -> None:
    lines = ["{", "[1]", '{"id": 1}', '{"id": 2, "expr": 5}', '{"id": 3, "expr": "1"}']
    status, text = run("eval", "--jsonl", stdin="\n".join(lines))
    assert status == 1
    assert json.loads(text)["id"] == 3
    assert [line.split(":")[0] for line in run.told.splitlines()] == [f"line {n} is not a case" for n in (1, 2, 3, 4)]
    status, _ = run("ads", "--jsonl", stdin='{"id": 1, "format": "yaml", "text": ""}\n')
    assert status == 1
    assert "'yaml' is not a format" in run.told


def test_wrong_words_are_usage_errors(run: Caller) -> None:
    for words in (["nosuch"], ["eval"], ["match", "job"], ["eval", "--nosuch", "1"], ["ads", "--to", "yaml", "job"]):
        with pytest.raises(UsageError):
            run(*words)
    with pytest.raises(SlotwiseError, match="cannot read"):
        run("match", "job", "missing")
    with pytest.raises(AdSyntaxError):
        run("eval", "1 +")


def test_help(run: Caller) -> None:
    assert run("--help")[1].startswith("usage: slotwise classad eval")
