"""The submit language: statements, queue forms, commands and their attributes, refusals, warnings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from slotwise.config import load
from slotwise.errors import SubmitError
from slotwise.submit import Submission, parse
from slotwise.table import unpack_ads

EXE = "executable = /bin/true\n"
DOCKER = EXE + "universe = docker\n"


def read(text: str, **more: Any) -> Submission:
    more.setdefault("env", {"HOME": "/home/alice", "LANG": "C"})
    more.setdefault("config", load("/dev/null", env={}))
    return parse(text, filename="t.sub", owner="alice", now=1_700_000_000, cwd=more.pop("cwd", "/tmp"), **more)


def values(text: str, attribute: str, **more: Any) -> list[Any]:
    """The attribute of every job of the first cluster."""
    cluster = read(text, **more).clusters[0]
    return [cluster.job(proc).get(attribute) for proc in range(cluster.count)]


def test_every_job_has_what_the_reference_sets() -> None:
    ad = read(EXE + "queue\n").clusters[0].job(0)
    expected = {
        "Cmd": "/bin/true",
        "JobUniverse": 5,
        "Iwd": "/tmp",
        "In": "/dev/null",
        "Out": "/dev/null",
        "Err": "/dev/null",
        "Arguments": "",
        "Environment": "",
        "JobStatus": 1,
        "JobPrio": 0,
        "Rank": 0.0,
        "JobNotification": 0,
        "LeaveJobInQueue": False,
        "MinHosts": 1,
        "MaxHosts": 1,
        "CurrentHosts": 0,
        "NumJobStarts": 0,
        "RequestCpus": 1,
        "RequestMemory": 128,
        "ShouldTransferFiles": "IF_NEEDED",
        "WhenToTransferOutput": "ON_EXIT",
        "JobLeaseDuration": 2400,
        "QDate": 1_700_000_000,
        "RootDir": "/",
        "MyType": "Job",
    }
    assert {name: ad[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("queue", "arguments"),
    [
        ("queue", ["0"]),
        ("queue 3", ["0", "1", "2"]),
        ("queue 1 + 1", ["0", "1"]),
        ("queue x in (a b, c)", ["a", "b", "c"]),
        ("queue x in a, b", ["a", "b"]),
        ("queue 2 x in (a, b)", ["a", "a", "b", "b"]),
        ("queue x in [1:] (a, b, c)", ["b", "c"]),
        ("queue x in [:-1] (a, b, c)", ["a", "b"]),
        ("queue x in [::2] (a, b, c)", ["a", "c"]),
        ("queue in (a, b)", ["a", "b"]),
        ("queue x from (\n a\n # no\n b c\n)", ["a", "b c"]),
        ("queue x,y from (\n a, 1\n b 2 3\n)", ["a:1", "b:2 3"]),
        ("queue x,y from (\n a\x1f1, 2\n)", ["a:1, 2"]),
    ],
)
def test_queue_forms(queue: str, arguments: list[str]) -> None:
    if "x,y" in queue:
        text = "arguments = $(x):$(y)\n"
    elif " x " in queue:
        text = "arguments = $(x)\n"
    elif " in " in queue:
        text = "arguments = $(Item)\n"
    else:
        text = "arguments = $(Process)\n"
    assert values(EXE + text + queue + "\n", "Args") == arguments


def test_items_from_files_commands_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a\nb\n\nc\n")
    text = EXE + "arguments = $(Item)\n"
    assert values(text + "queue from list\n", "Args", cwd=str(tmp_path)) == ["a", "b", "c"]
    assert values(text + "queue from [1:] list\n", "Args", cwd=str(tmp_path)) == ["b", "c"]
    assert values(text + "queue from /bin/echo x y |\n", "Args") == ["x y"]
    assert values(text + "queue from -\n", "Args", stdin="p\nq\n") == ["p", "q"]


def test_matching_files_and_directories(tmp_path: Path) -> None:
    for name in ("b.dat", "a.dat", "c.txt", ".hidden.dat"):
        (tmp_path / name).touch()
    (tmp_path / "d.dat").mkdir()
    text = EXE + "arguments = $(Item)\n"
    where = {"cwd": str(tmp_path)}
    assert values(text + "queue matching (*.dat)\n", "Args", **where) == ["a.dat", "b.dat", "d.dat/"]
    assert values(text + "queue matching files *.dat, *.txt\n", "Args", **where) == ["a.dat", "b.dat", "c.txt"]
    assert values(text + "queue matching dirs *.dat\n", "Args", **where) == ["d.dat/"]
    made = read(EXE + "queue matching *.dat a* nope*\n", **where)
    assert made.count == 3
    assert len([w for w in made.warnings if "duplicate" in w]) == 1
    assert len([w for w in made.warnings if "does not match" in w]) == 1


QUEUE_PATTERNS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "conformance" / "queue-patterns.jsonl").read_text().splitlines()
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory beside others, with files whose names are like patterns."""
    root = tmp_path_factory.mktemp("tree")
    for name in ("in", "sub/deep", "a.d"):
        (root / name).mkdir(parents=True)
    for name in ("a", "b", "1", "12", "A", "x y", ".hid", "[x]"):
        (root / "in" / f"{name}.dat").touch()
    for name in ("sub/c.dat", "sub/deep/d.dat", "top.dat", ".top.dat", "we*ird", "back\\slash", "t.sub"):
        (root / name).touch()
    (root / "link").symlink_to("in")
    return root / "sub"


@pytest.mark.parametrize("case", QUEUE_PATTERNS, ids=lambda case: case["pattern"])
def test_patterns_match_the_files_that_they_match_in_htcondor(case: dict[str, Any], tree: Path) -> None:
    """Answers of HTCondor 25.14.1's condor_submit -dry-run, in such a directory."""
    made = read(EXE + f"arguments = $(x)\nqueue 1 x matching {case['pattern']}\n", cwd=str(tree))
    jobs = [cluster.job(proc) for cluster in made.clusters for proc in range(cluster.count)]
    assert [job["Args"] for job in jobs] == case["names"]


def test_automatic_variables() -> None:
    text = EXE + "arguments = $(Process) $(ItemIndex) $(Step) $(x) $(SUBMIT_FILE) $(Year)\nqueue 2 x in (a, b)\n"
    expected = ["0 0 0 a t.sub 2023", "1 0 1 a t.sub 2023", "2 1 0 b t.sub 2023", "3 1 1 b t.sub 2023"]
    assert values(text, "Args") == expected


def test_cluster_ids_are_known_to_be_needed() -> None:
    made = read(EXE + "log = job.$(Cluster).log\nqueue\n")
    assert made.mentions_cluster
    again = read(EXE + "log = job.$(ClusterId).log\nqueue\n", first_cluster=77)
    assert again.clusters[0].job(0)["UserLog"] == "/tmp/job.77.log"
    assert not read(EXE + "queue\n").mentions_cluster


def test_a_new_executable_starts_a_new_cluster() -> None:
    made = read(EXE + "queue 2\nexecutable = /bin/false\nqueue 3\narguments = 1\nqueue\n")
    assert [cluster.count for cluster in made.clusters] == [2, 4]
    assert made.clusters[1].job(3)["Args"] == "1"
    assert made.clusters[1].job(2).get("Args") is None


def test_argument_syntaxes() -> None:
    assert values(EXE + 'arguments = "a \'b c\' ""d"""\nqueue\n', "Arguments") == ["a b' 'c \"d\""]
    assert values(EXE + 'arguments = a  b\\"c\nqueue\n', "Args") == ['a b"c']


def test_environment_and_getenv() -> None:
    assert values(EXE + "environment = \"A=1 B='x y'\"\nqueue\n", "Environment") == ["A=1 B=x' 'y"]
    assert values(EXE + "environment = A=1;B=2\nqueue\n", "Environment") == ["A=1 B=2"]
    assert values(EXE + "getenv = HO*, !LANG\nqueue\n", "Environment") == ["HOME=/home/alice"]
    assert values(EXE + "getenv = true\nqueue\n", "Environment") == ["HOME=/home/alice LANG=C"]


def test_sizes_have_units() -> None:
    ad = read(EXE + "request_memory = 2G\nrequest_disk = 1.5GB\nqueue\n").clusters[0].job(0)
    assert (ad["RequestMemory"], ad["RequestDisk"]) == (2048, 1536 * 1024)


def test_custom_attributes_and_texts() -> None:
    text = EXE + '+A = 1 + 1\nMY.B = "b"\nfoo @=end\nline 1\n  line 2\n@end\n+C = "$(foo)"\nqueue\n'
    ad = read(text).clusters[0].job(0)
    assert ad["B"] == "b"
    assert ad.eval("A") == 2
    assert ad["C"] == "line 1\nline 2"


def test_conditions_and_includes(tmp_path: Path) -> None:
    (tmp_path / "inc").write_text("arguments = included\n")
    text = EXE + "X = true\nif $(X)\n include : inc\nelse\n arguments = no\nendif\nqueue\n"
    assert values(text, "Args", cwd=str(tmp_path)) == ["included"]


def test_retries_make_the_exit_policy() -> None:
    ad = read(EXE + "max_retries = 3\nsuccess_exit_code = 7\nretry_until = 9\nqueue\n").clusters[0].job(0)
    assert ad["JobMaxRetries"] == 3
    expected = "NumJobCompletions > JobMaxRetries || ExitCode =?= JobSuccessExitCode || ExitCode =?= 9"
    assert str(ad.lookup("OnExitRemove")).replace(" is ", " =?= ") == expected


def test_requirements_are_made() -> None:
    config = load("/dev/null", env={"_CONDOR_ARCH": "X86_64", "_CONDOR_OPSYS": "LINUX"})
    plain = str(read(EXE + "queue\n", config=config).clusters[0].job(0).lookup("Requirements"))
    for clause in (
        '(TARGET.Arch == "X86_64")',
        '(TARGET.OpSys == "LINUX")',
        "(TARGET.Disk >= RequestDisk)",
        "(TARGET.Memory >= RequestMemory)",
        "TARGET.HasFileTransfer",
    ):
        assert clause in plain
    assert "Cpus" not in plain
    for other in (
        'TARGET["OpSys"] == "WINDOWS"',
        'eval("TARGET.OpSys") == "WINDOWS"',
        '{ TARGET.OpSys }[0] == "WINDOWS"',
    ):
        text = str(
            read(f"{EXE}requirements = {other}\nqueue\n", config=config).clusters[0].job(0).lookup("Requirements")
        )
        assert "LINUX" not in text, other
    own = 'requirements = Arch == "ARM" && Cpus > 1 && TARGET.Memory > 5\nrequest_cpus = 4\nrequest_foo = 2\nqueue\n'
    text = str(read(EXE + own, config=config).clusters[0].job(0).lookup("Requirements"))
    assert "X86_64" not in text
    assert "RequestCpus" not in text
    assert "(TARGET.foo >= RequestFoo)" in text or "(TARGET.foo >= Requestfoo)" in text


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        (EXE + "request_memory = 2 G of\nqueue\n", 2, "request_memory"),
        (EXE + "requirements = (Arch ==\nqueue\n", 2, "requirements"),
        (EXE + 'arguments = "a \'b"\nqueue\n', 2, "arguments"),
        (EXE + "log_xml = perhaps\nqueue\n", 2, "log_xml"),
        (EXE + "priority = high\nqueue\n", 2, "priority"),
        (EXE + "universe = nonesuch\nqueue\n", 2, "universe"),
        (EXE + "should_transfer_files = MAYBE\nqueue\n", 2, "should_transfer_files"),
        (EXE + "queue x from (\na\n", 2, "queue"),
        (EXE + "queue nonsense\n", 2, "queue"),
        (EXE + "arguments\nqueue\n", 2, "arguments"),
        (EXE + "kill_sig = SIGNOPE\nqueue\n", 2, "kill_sig"),
        (DOCKER + "docker_image = -v/:/host\nqueue\n", 3, "docker_image"),
        (DOCKER + "docker_image = --privileged debian\nqueue\n", 3, "docker_image"),
        (EXE + "universe = container\ncontainer_image = docker://--x\nqueue\n", 3, "container_image"),
        (EXE + "container_image = library://a/b\nqueue\n", 2, "container_image"),
        (DOCKER + "container_image = debian\nqueue\n", 3, "container_image"),
        (DOCKER + "docker_image = debian\ncontainer_target_dir = here\nqueue\n", 4, "container_target_dir"),
        (DOCKER + "docker_image = debian\ncontainer_target_dir = /a:/etc\nqueue\n", 4, "container_target_dir"),
        ("queue\n", 1, "executable"),
        ("executable = /no/such/program\nqueue\n", 1, "executable"),
    ],
)
def test_refusals_name_line_key_and_remedy(text: str, line: int, key: str) -> None:
    with pytest.raises(SubmitError) as caught:
        read(text)
    assert caught.value.origin == f"t.sub:{line}"
    assert caught.value.key == key
    assert caught.value.hint


@pytest.mark.parametrize("image", ["debian", '"debian:12"', "a.b:5000/c/d@sha256:0f", "$$(Image)", "docker://debian"])
def test_names_of_images(image: str) -> None:
    assert read(DOCKER + f"docker_image = {image}\ncontainer_target_dir = /work\nqueue\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "does not exist"),
        ("directory", "is a directory"),
        ("/etc", "is a directory"),
        ("pipe", "is not a regular file"),
        ("empty", "has zero length"),
        ("dos", "CRLF"),
    ],
)
def test_an_executable_that_cannot_be_sent_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "dos").write_bytes(b"#!/bin/sh\r\necho\r\n")
    (tmp_path / "plain").write_bytes(b"#!/bin/sh\necho\r\n")  # sent files become executable
    assert read("executable = plain\nqueue\n", cwd=str(tmp_path)).count == 1
    text = f"arguments = 1\nexecutable = {name}\nqueue\n"
    with pytest.raises(SubmitError, match=words) as caught:
        read(text, cwd=str(tmp_path))
    assert (caught.value.origin, caught.value.key) == ("t.sub:2", "executable")
    assert caught.value.hint
    for excuse in ("transfer_executable = false\n", "skip_filechecks = true\n"):
        assert read(excuse + text, cwd=str(tmp_path)).count == 1


def test_sizes_of_directories_count_no_links(tmp_path: Path) -> None:
    (tmp_path / "data/below").mkdir(parents=True)
    (tmp_path / "data/below/file").write_bytes(bytes(5000))
    (tmp_path / "data/below/up").symlink_to(tmp_path)
    (tmp_path / "data/root").symlink_to("/")
    text = EXE + "transfer_input_files = data\nshould_transfer_files = yes\nqueue\n"
    assert values(text, "TransferInputSizeMB", cwd=str(tmp_path)) == [1]


def test_blank_lines_of_a_list_are_no_items_and_told(tmp_path: Path) -> None:
    """HTCondor 25.14.1 queues a job for each of them, with the values of the line before it, or with none."""
    (tmp_path / "list").write_text("\na,1\n\n  \nb,2\n\n")
    made = read(EXE + "arguments = $(x):$(y)\nqueue x,y from list\n", cwd=str(tmp_path))
    assert [made.clusters[0].job(proc)["Args"] for proc in range(made.clusters[0].count)] == ["a:1", "b:2"]
    (warning,) = made.warnings
    assert "4 blank lines in the list of items left out" in warning
    (warning,) = read(EXE + "arguments = $(x)\nqueue x from (\na\n\nb\n)\n").warnings
    assert "1 blank line in the list" in warning
    assert not read(EXE + "arguments = $(x)\nqueue x in (\na\n\nb\n)\n").warnings


def test_misspelt_keys_are_noticed() -> None:
    (warning,) = read(EXE + "requst_memory = 1G\nqueue\n").warnings
    assert "t.sub:2: " in warning
    assert "did you mean request_memory?" in warning
    assert not read(EXE + "x = 1\narguments = $(x)\nqueue\n").warnings
    of_nodes = ["JOB=A", "RETRY=0", "DAG_STATUS=0", "FAILED_COUNT=0"]
    assert not read(EXE + "queue\n", before=of_nodes).warnings, "condor_dagman gives these to every job"
    assert len(read(EXE + "queue\n", before=["FOO=3"]).warnings) == 1


def test_deltas_and_cluster_make_the_whole_ad() -> None:
    text = EXE + "arguments = $(Process)\nlog = a.log\noutput = out.$(Process)\nqueue 3\n"
    cluster = read(text).clusters[0]
    (shared,) = unpack_ads(cluster.pack())
    deltas = unpack_ads(cluster.deltas())
    assert shared["Args"] == "0"
    assert [dict(delta) for delta in deltas] == [{}, {"Args": "1", "Out": "out.1"}, {"Args": "2", "Out": "out.2"}]
    assert read(EXE + "queue 3\n").clusters[0].deltas() == b""


def test_statements_of_the_command_line() -> None:
    text = EXE + "arguments = $(x) $(y)\nqueue\n"
    assert values(text, "Args", before=["x = 1"], append=["y = 2"]) == ["1 2"]
    assert values(text, "Args", queue_args="2 x in (p, q)", before=["y = 0"]) == ["p 0", "p 0", "q 0", "q 0"]


EXTENDED = """EXTENDED_SUBMIT_COMMANDS @=end
  LongJob = true
  accounting_group_user = error
  JobSite = "string"
  FavoriteFruit = "a,b"
  SomeFile = "filename"
  SomeFiles = "file,names"
  SomeInt = -1
  SomeUint = 0
  getReal = 1.0
  some_expression = a+b
  Nothing = 1
  Nothing = undefined
  bad =
@end
"""


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ("longjob = 1", "LongJob", "true"),
        ("LongJob = 1 == 2", "LongJob", "false"),
        ("longjob =", "LongJob", None),
        ("jobsite = chtc", "JobSite", '"chtc"'),
        ('jobsite = "ch tc"', "JobSite", '"ch tc"'),
        ('jobsite = a "b" c', "JobSite", r'"a \"b\" c"'),
        ("FavoriteFruit = kiwi grape,fig", "FavoriteFruit", '"kiwi,grape,fig"'),
        ('FavoriteFruit = "kiwi, grape"', "FavoriteFruit", '"kiwi,grape"'),
        ("SomeFile = some.txt", "SomeFile", '"/tmp/some.txt"'),
        ('SomeFile = "some.txt"', "SomeFile", '"/tmp/some.txt"'),
        ("SomeFiles = a.txt, /b.txt c", "SomeFiles", '"a.txt,/b.txt,c"'),
        ("SomeInt = 6*7", "SomeInt", "42"),
        ("SomeInt = 2.7", "SomeInt", "2"),
        ("SomeUint = 3", "SomeUint", "3"),
        ("getReal = a + 1", "getReal", "a + 1"),
        ("some_expression = Alpha + 2", "some_expression", "Alpha + 2"),
        ("Nothing = 3", "Nothing", None),
        ("longjob = maybe", "ERROR", "LongJob=maybe is invalid, must eval to a boolean"),
        ("SomeInt = abc", "ERROR", "SomeInt=abc is invalid, must eval to an integer"),
        ("SomeUint = -3", "ERROR", "SomeUint=-3 is invalid"),
        ("SomeUint = 2-3", "ERROR", "SomeUint=2-3 is invalid"),
        ("some_expression = ((", "ERROR", "some_expression is not an expression"),
        ("accounting_group_user = bob", "ERROR", "accounting_group_user=bob has been disabled by the administrator"),
    ],
)
def test_commands_that_the_administrator_adds_or_forbids(
    tmp_path: Path, line: str, attribute: str, value: str | None
) -> None:
    """As HTCondor 25.14's condor_submit takes them."""
    (tmp_path / "config").write_text(EXTENDED)
    config = load(tmp_path / "config", env={})
    if attribute == "ERROR":
        with pytest.raises(SubmitError) as refusal:
            read(f"{EXE}{line}\nqueue\n", config=config)
        assert str(value) in str(refusal.value)
        return
    made = read(f"{EXE}{line}\nqueue\n", config=config)
    job = made.clusters[0].job(0)
    assert (str(job.lookup(attribute)) if attribute in job else None) == value
    assert any("was not used" in text for text in made.warnings) is line.startswith("Nothing")


def test_commands_of_the_administrator_differ_from_job_to_job(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(EXTENDED)
    config = load(tmp_path / "config", env={})
    assert values(f"{EXE}LongJob = $(Process)\nqueue 2\n", "LongJob", config=config) == [False, True]
    text = f"{EXE}SomeFile = f\ninitialdir = /$(Item)\nqueue in (usr, etc)\n"
    assert values(text, "SomeFile", config=config) == ["/usr/f", "/etc/f"]


def test_java_jobs_take_class_and_jars_along(tmp_path: Path) -> None:
    """What condor_submit 25.14 makes of the same descriptions."""
    for name in ("Hello.class", "a.jar", "in.txt"):
        (tmp_path / name).write_text("data\n")
    text = (
        "universe = java\nexecutable = Hello.class\narguments = Hello $(ProcId)\njar_files = a.jar\n"
        "java_vm_args = -Da=b -Xss1m\ntransfer_input_files = in.txt\nqueue 2\n"
    )
    cluster = read(text, cwd=str(tmp_path)).clusters[0]
    first, second = cluster.job(0), cluster.job(1)
    expected = {
        "JobUniverse": 10, "Cmd": "java", "Args": "Hello 0", "JarFiles": "a.jar", "JavaVMArgs": "-Da=b -Xss1m",
        "TransferExecutable": False, "TransferInput": f"in.txt,{tmp_path}/Hello.class,a.jar", "KillSig": "SIGTERM",
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert (second["Args"], second["TransferInput"]) == ("Hello 1", expected["TransferInput"])
    assert str(first.lookup("Requirements")).startswith("TARGET.HasJava && (TARGET.Disk >= RequestDisk)")
    there = text.replace("transfer_input_files = in.txt", "should_transfer_files = no")
    there = there.replace("java_vm_args = -Da=b -Xss1m", 'java_vm_arguments = "-Da=b c"')
    ad = read(there, cwd=str(tmp_path)).clusters[0].job(0)
    assert (ad["Cmd"], ad["JavaVMArguments"]) == (f"{tmp_path}/Hello.class", "-Da=b c")
    with pytest.raises(SubmitError, match="In Java universe, you must specify the class name to run"):
        read("universe = java\nexecutable = Hello.class\nqueue\n", cwd=str(tmp_path))


def test_parallel_jobs_have_a_number_of_nodes() -> None:
    """What condor_submit 25.14 makes of the same descriptions."""
    text = EXE + "universe = parallel\nmachine_count = 3\narguments = 10 $(Node)\noutput = out.$(NODE)\nqueue\n"
    ad = read(text).clusters[0].job(0)
    expected = {
        "JobUniverse": 11, "MinHosts": 3, "MaxHosts": 3, "Args": "10 #pArAlLeLnOdE#", "Out": "out.#pArAlLeLnOdE#",
        "WantIOProxy": True, "JobRequiresSandbox": True, "KillSig": "SIGTERM",
    }  # fmt: skip
    assert {name: ad[name] for name in expected} == expected
    assert read(EXE + "universe = parallel\nnode_count = 2\nqueue\n").clusters[0].job(0)["MinHosts"] == 2
    for words, problem in (("", "No machine_count specified!"), ("machine_count = 0\n", "not a number of nodes")):
        with pytest.raises(SubmitError, match=problem):
            read(EXE + f"universe = parallel\n{words}queue\n")


def test_common_files_can_be_required() -> None:
    for value, is_asked in {"true": True, "false": False, "undefined": False}.items():
        text = EXE + f"should_transfer_files = yes\nMY.RequireCommonFilesTransfer = {value}\nqueue\n"
        (found,) = values(text, "Requirements")
        assert ("TARGET.HasCommonFilesTransfer >= 2" in str(found)) is is_asked, value


@pytest.mark.parametrize(
    ("image", "knobs", "command", "common"),
    [
        ("box.sif", "", "", False),
        ("box.sif", "CONTAINER_IMAGES_COMMON_BY_DEFAULT = true", "", True),
        ("box.sif", "CONTAINER_IMAGES_COMMON_BY_DEFAULT = true", "container_is_common = false", False),
        ("box.sif", "", "container_is_common = true", True),
        ("box.sif", r"CONTAINER_REGEX_COMMON_BY_DEFAULT = ^.*\.sif$", "", True),
        ("box.sif", "CONTAINER_REGEX_COMMON_BY_DEFAULT = box", "", False),  # the whole name
        ("box.sif", "CONTAINER_REGEX_COMMON_BY_DEFAULT = ^osdf://.*$", "", False),
        ("osdf://ns/box.sif", "CONTAINER_REGEX_COMMON_BY_DEFAULT = ^osdf://.*$", "", True),
        ("http://host/box.sif", "CONTAINER_REGEX_COMMON_BY_DEFAULT = a|http://.*", "", True),
        ("docker://box", "CONTAINER_REGEX_COMMON_BY_DEFAULT = .*", "", False),
    ],
)
def test_container_images_that_are_common_input_files(
    tmp_path: Path, image: str, knobs: str, command: str, common: bool
) -> None:
    (tmp_path / "condor_config").write_text(f"{knobs}\n")
    text = (
        f"universe = container\nskip_filechecks = true\ncontainer_image = {image}\n{command}\nshell = true\nqueue 2\n"
    )
    cluster = read(f"{text}shell = true\nqueue 2\n", config=load(tmp_path / "condor_config", env={})).clusters[0]
    for proc in range(2):
        ad = cluster.job(proc)
        catalogs = {str(name): value for name, value in ad.items() if str(name).startswith("_x_catalog_container_")}
        assert list(catalogs.values()) == [image] * common
        assert ad.get("CommonInputCatalogs") == (next(iter(catalogs)).removeprefix("_x_catalog_") if common else None)
        assert ad.get("TransferInput") == (None if common or "docker" in image else image)
        assert str(ad["ContainerImage"]).endswith("box.sif" if "docker" not in image else image)


def test_a_pattern_of_common_images_that_is_none_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "condor_config").write_text("CONTAINER_REGEX_COMMON_BY_DEFAULT = (\n")
    text = "container_image = box.sif\nskip_filechecks = true\nshell = true\nqueue\n"
    found = read(text, config=load(tmp_path / "condor_config", env={}))
    assert any("is not a regular expression" in warning for warning in map(str, found.warnings))
    assert found.clusters[0].job(0).get("CommonInputCatalogs") is None
