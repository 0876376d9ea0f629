"""What a forge, a newcomer's editor and a release rely on: workflows, hooks, metadata, the site's index."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import slotwise
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
#: Programs that a step of a workflow may run besides `make`.
PROGRAMS = {"cargo", "curl", "echo", "gh", "make", "pipx", "rustup", "sh"}


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(workflow: Any) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return found


def release() -> ModuleType:
    return build_support("release")


def build_support(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "build_support" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_the_workflows_that_the_guides_name() -> None:
    assert {path.stem for path in WORKFLOWS} >= {"ci", "docs", "nightly", "release", "wheels"}


def test_an_old_rust_toolchain_is_told_before_anything_is_built() -> None:
    toolchain = build_support("toolchain")
    least = toolchain.wanted((ROOT / "Cargo.toml").read_text())
    assert toolchain.trouble("cargo 1.65.0\n", least).startswith(f"Slotwise needs Rust {least[0]}.{least[1]} or newer")
    assert toolchain.trouble(f"cargo {least[0]}.{least[1]}.0 (873a06493 2025-05-10)\n", least) is None
    assert toolchain.trouble("cargo 2.0.0\n", least) is None
    assert "no version" in toolchain.trouble("no toolchain\n", least)
    assert "build_support/toolchain.py" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_a_workflow_runs_targets_that_exist_with_no_more_rights_than_it_says(path: Path) -> None:
    workflow = parsed(path)
    assert workflow["permissions"] == {"contents": "read"}, "more rights only for the job that needs them"
    for job in workflow["jobs"].values():
        assert "uses" in job or job["timeout-minutes"] > 0
    for step in steps(workflow):
        for command in re.split(r"&&|\|", step.get("run", "echo")):
            words = command.split()
            assert words[0] in PROGRAMS, command
            if words[0] == "make":
                named = [word for word in words[1:] if re.fullmatch(r"[a-z][a-z-]*", word)]
                assert named and set(named) <= TARGETS, command
        assert "${{" not in step.get("run", ""), "values go through env, so that they are never part of a command"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_actions_of_others_are_pinned(path: Path) -> None:
    for line in re.findall(r"uses: (.*)", path.read_text()):
        assert line.startswith("./") or re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+(\.\d+)*", line), line


def test_each_python_that_the_metadata_names_is_tested_and_each_wheel_tried_on_it() -> None:
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert named[0] == project()["project"]["requires-python"].removeprefix(">=")
    for name, job in (("ci", "tests"), ("wheels", "smoke")):
        matrix = parsed(ROOT / ".github" / "workflows" / f"{name}.yml")["jobs"][job]["strategy"]["matrix"]
        assert matrix["python"] == named, name


def test_forms_for_issues_have_what_a_forge_wants_of_them() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = parsed(path)
        if path.stem == "config":
            assert form == {"blank_issues_enabled": False}
            continue
        assert form["name"] and form["description"]
        fields = [part for part in form["body"] if part["type"] != "markdown"]
        assert {part["type"] for part in fields} <= {"textarea", "input"}
        assert len({part["id"] for part in fields}) == len(fields) > 0
        assert all(part["attributes"]["label"] for part in fields)
        assert any(part.get("validations", {}).get("required") for part in fields)


def test_hooks_call_tools_that_the_build_installs() -> None:
    installed = (ROOT / "requirements-dev.txt").read_text().split()
    (local,) = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local", "no hook is fetched"
    for hook in local["hooks"]:
        program = hook["entry"].split()[0]
        assert program == "cargo" or program.removeprefix(".venv/bin/") in installed, hook["id"]


def test_every_target_is_explained_and_phony() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"[\w-]+", re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)[0]))
    assert phony == TARGETS
    explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert explained == TARGETS


def test_the_version_stands_in_one_place() -> None:
    stated = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert slotwise.__version__ == stated
    assert project()["project"]["dynamic"] == ["version"]
    for manifest in (ROOT / "rust").glob("*/Cargo.toml"):
        package = tomllib.loads(manifest.read_text())["package"]
        assert manifest.parent.name == "fuzz" or package["version"] == {"workspace": True}, manifest


def test_the_site_lists_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"(?<=[ :-] )[\w/-]+\.md$", text, re.MULTILINE))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    unlisted = {page for page in pages - listed if not re.match(r"decisions/\d", page)}
    assert unlisted == set(), "put them into the nav of mkdocs.yml"
    assert {page for page in listed - pages if not page.startswith("project/")} == set()
    decisions = (ROOT / "docs" / "decisions" / "README.md").read_text()
    assert [page for page in pages if re.match(r"decisions/\d", page) and Path(page).name not in decisions] == []


def tree(tmp_path: Path, **replaced: str) -> Path:
    """A tree that may be released as v0.2.0, but for what is replaced in its files."""
    files = {
        "Cargo.toml": '[workspace.package]\nversion = "0.2.0"\n',
        "Cargo.lock": '[[package]]\nname = "classad"\nversion = "0.2.0"\n',
        "CHANGELOG.md": "# Changelog\n\n## 0.2.0 (2027-01-31)\n\nNew.\n\n## 0.1.0 (2026-12-01)\n\nOld.\n",
        "pyproject.toml": "[project.urls]\n" + "".join(f'{name} = "https://pool.example"\n' for name in release().URLS),
        "tests/conformance/protos/0.2.0.json": "{}",
    } | replaced
    shutil.rmtree(tmp_path / "tree", ignore_errors=True)
    for name, text in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def test_a_release_is_checked_for_each_thing_that_it_needs(tmp_path: Path) -> None:
    check = release().faults
    assert check("v0.2.0", tree(tmp_path)) == []
    assert check("v0.3.0", tree(tmp_path)) == ["the tag is v0.3.0, but Cargo.toml has version 0.2.0"]
    behind = tree(tmp_path, **{"Cargo.lock": '[[package]]\nname = "classad"\nversion = "0.1.0"\n'})
    assert check("v0.2.0", behind) == ["Cargo.lock has classad 0.1.0: run cargo update --workspace"]
    undated = tree(tmp_path, **{"CHANGELOG.md": "## 0.2.0 (unreleased)\n"})
    assert check("v0.2.0", undated) == ["CHANGELOG.md says 0.2.0 (unreleased): put the date of the release there"]
    assert check("v0.2.0", tree(tmp_path, **{"CHANGELOG.md": ""})) == ["CHANGELOG.md has no section of 0.2.0"]
    (fault,) = check("v0.2.0", tree(tmp_path, **{"pyproject.toml": "[project]\n"}))
    assert fault == "[project.urls] in pyproject.toml lacks Repository, Issues, Documentation, Changelog"
    unrecorded = tree(tmp_path)
    (unrecorded / "tests/conformance/protos/0.2.0.json").unlink()
    (fault,) = check("v0.2.0", unrecorded)
    assert fault.startswith("the messages of 0.2.0 are not recorded")


def test_the_text_of_a_release_is_its_section() -> None:
    section = release().section
    changelog = "# Changelog\n\n## 0.2.0 (2027-01-31)\n\nNew.\n\n### Jobs\n\n- A\n\n## 0.1.0 (2026-12-01)\n\nOld.\n"
    assert section(changelog, "0.2.0") == ("2027-01-31", "New.\n\n### Jobs\n\n- A")
    assert section(changelog, "0.1.0") == ("2026-12-01", "Old.")
    assert section(changelog, "0.3.0") is None
