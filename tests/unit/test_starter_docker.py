"""What Docker jobs are made of: arguments, groups, images, and what the daemon says, without a daemon."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config, load
from slotwise.execution.cgroup import plan
from slotwise.execution.cgroup.plan import CgroupRules
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.execution.exit_status import MemoryRule, classify
from slotwise.execution.job_view import JobView, SlotView, read_job
from slotwise.execution.keeper_spec import CgroupPlan, Identity, Isolation, KeeperResult, KeeperSpec, Limits
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.docker import client, container, images, launch, state, test_image
from slotwise.starter.runtimes.docker.client import Client
from slotwise.starter.runtimes.docker.container import Devices, Engine
from slotwise.starter.runtimes.docker.create_body import create_body
from slotwise.starter.runtimes.docker.daemon import socket_of
from slotwise.starter.runtimes.docker.driver import Docker, engine_of
from slotwise.starter.runtimes.docker.images import Image
from slotwise.starter.runtimes.docker.rules import DockerRules, HostVolume, read_docker
from slotwise.starter.runtimes.images import is_host_failure
from slotwise.starter.runtimes.runtime import ContainerJob

from tests.support import host

RUN = RunDirectory(Path("/execute/dir_1_1"), Path("/control/dir_1_1"))
SCRATCH = "/execute/dir_1_1/scratch"
JOB = {
    "ClusterId": 12, "ProcId": 3, "Owner": "ann", "User": "ann@example", "Cmd": "/home/ann/prog",
    "Arguments": "one 'two words'", "WantDocker": True, "DockerImage": "debian",
}  # fmt: skip
MOUNTS = tuple(f"/sys/fs/cgroup/{name}" for name in ("memory", "cpu", "freezer", "blkio"))
NESTED = Engine(nests=True, mounts=MOUNTS)
SECOND = Engine(nests=True, mounts=("/sys/fs/cgroup",))


def groups(version: int = 1) -> CgroupPlan:
    first = {name: Path(f"/sys/fs/cgroup/{name}/htcondor") for name in ("memory", "cpu", "freezer")}
    host = CgroupHost(version, first if version == 1 else {"": Path("/sys/fs/cgroup/htcondor")}, frozenset({"memory"}))
    return plan.plan(host, CgroupRules(), name="_execute_slot1", cpus=2, memory_mib=100, user=True)


def spec_of(job: JobView, **more: Any) -> KeeperSpec:
    spec = KeeperSpec(
        name=RUN.name,
        exe=f"{SCRATCH}/prog",
        args=(f"{SCRATCH}/prog", *job.arguments),
        env={"HOME": "/home/ann", "A": "b c"},
        cwd=SCRATCH,
        identity=Identity(1000, 100, (50,)),
        cgroup=groups(),
        marker="_SLOTWISE_FAMILY=dir_1_1.x",
    )
    return replace(spec, **more)


def context_of(machine: dict[str, Any] | None = None, **job: Any) -> JobContext:
    ad = ClassAd({**JOB, **job})
    place = ClassAd({"Machine": "node.example", **(machine or {})})
    slot = SlotView("slot1@node", cpus=2, memory_mib=100)
    view = read_job(lookup(ad), "ann@example")
    return JobContext(view, slot, ad, place, RUN, Identity(1000, 100, (50,)), transfers=True, root=True)


def created(context: JobContext, rules: DockerRules | None = None, engine: Engine = NESTED, **spec: Any) -> list[str]:
    return container.create_arguments(
        spec_of(context.job, **spec),
        context,
        rules or DockerRules(),
        engine,
        image="debian:latest",
        memory_mib=100,
        account=(1000, 100),
    )


def after(words: list[str], option: str) -> list[str]:
    """The values of an option."""
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_a_container_has_the_jobs_user_directory_environment_and_program() -> None:
    words = created(context_of())
    assert words[0] == "create" and after(words, "--name") == ["HTCJob12_3_dir_1_1"]
    assert after(words, "--label") == ["org.htcondorproject=True", "slotwise.run=/execute/dir_1_1"]
    assert "--cgroup-parent=/htcondor/_execute_slot1" in words and "--memory=100m" not in words
    assert after(words, "--workdir") == [SCRATCH] and after(words, "--user") == ["1000:100"]
    assert after(words, "--group-add") == ["50"]
    assert not any("A=b" in word for word in words), "command lines are for all to read"
    assert after(words, "--volume") == [f"{SCRATCH}:{SCRATCH}"]
    assert after(words, "--hostname") == ["ann-12.3-node.example"]
    assert {"--cap-drop=all", "--cap-add=SYS_PTRACE", "no-new-privileges", "--init"} <= set(words)
    assert after(words, "--log-driver") == ["none"] and "--interactive" not in words
    assert words[-4:] == ["debian:latest", "./prog", "one", "two words"]


@pytest.mark.parametrize(
    ("job", "end"),
    [
        ({"TransferExecutable": False, "Cmd": "/bin/sh"}, ["debian:latest", "/bin/sh", "one", "two words"]),
        ({"Cmd": "", "TransferExecutable": False}, ["debian:latest", "one", "two words"]),
        ({"DockerOverrideEntrypoint": True}, ["--entrypoint", "./prog", "debian:latest", "one", "two words"]),
        ({"InteractiveJob": True}, ["one", "two words", "86400"]),
    ],
)
def test_the_program_is_the_jobs_the_images_or_its_entry_point(job: dict[str, Any], end: list[str]) -> None:
    assert created(context_of(**job))[-len(end) :] == end


def test_without_the_jobs_group_docker_itself_limits_the_container() -> None:
    words = created(context_of(), engine=Engine())
    assert {"--memory=100m", "--cpu-shares=200"} <= set(words)
    assert not any(word.startswith("--cgroup-parent") for word in words)
    assert "--cpuset-cpus=0,3" in created(replace(context_of(), cores=(0, 3)), engine=Engine())


def test_a_slice_of_systemd_is_limited_by_docker_and_watched_by_the_keeper() -> None:
    engine = Engine(slices="/sys/fs/cgroup")
    words = created(context_of(), engine=engine, cgroup=groups(2))
    name = "htcondor-_execute_slot1_dir_1_1.slice"
    assert f"--cgroup-parent={name}" in words and "--memory=100m" in words
    watched = container.container_groups(spec_of(context_of().job, cgroup=groups(2)), engine)
    place = f"/sys/fs/cgroup/htcondor.slice/{name}"
    assert (watched.freezer, watched.memory, watched.cpu, watched.make) == (place, place, place, ())
    assert container.is_slice_of(name, "/execute", "") and container.is_slice_of(name, "/execute", "dir_1_1")
    assert not container.is_slice_of(name, "/execute", "dir_1_2") and not container.is_slice_of(name, "/exec", "")


def test_docker_itself_limits_processes_and_swap_where_the_jobs_group_cannot() -> None:
    host = CgroupHost(2, {"": Path("/sys/fs/cgroup/htcondor")}, frozenset({"memory", "pids"}))
    rules = CgroupRules(disable_swap=True, max_processes=50)
    cgroup = plan.plan(host, rules, name="_execute_slot1", cpus=2, memory_mib=100, user=True)
    words = created(context_of(), engine=Engine(slices="/sys/fs/cgroup"), cgroup=cgroup)
    assert {"--memory=100m", "--memory-swap=100m", "--pids-limit=50"} <= set(words)
    below = created(context_of(), engine=SECOND, cgroup=cgroup)
    assert not [word for word in below if word.startswith(("--memory", "--pids", "--cpu"))]


#: /proc/self/mounts of hosts, cut down to their cgroups.
FIRST_ONLY = "".join(
    f"cgroup /sys/fs/cgroup/{names} cgroup rw,nosuid,nodev,noexec,relatime,{names} 0 0\n"
    for names in ("cpu,cpuacct", "memory", "freezer", "pids")
)
HYBRID = FIRST_ONLY + "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n"
SECOND_ONLY = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n"
FIRST_PLACES = tuple(f"/sys/fs/cgroup/{names}" for names in ("cpu,cpuacct", "memory", "freezer", "pids"))


@pytest.mark.parametrize(
    ("mounts", "driver", "version", "expected"),
    [
        (FIRST_ONLY, "cgroupfs", "1", Engine(nests=True, mounts=FIRST_PLACES)),
        (FIRST_ONLY, "systemd", "1", Engine(mounts=FIRST_PLACES)),
        (HYBRID, "cgroupfs", "1", Engine(nests=True, mounts=(*FIRST_PLACES, "/sys/fs/cgroup/unified"))),
        (SECOND_ONLY, "cgroupfs", "2", Engine(nests=True, mounts=("/sys/fs/cgroup",))),
        (SECOND_ONLY, "systemd", "2", Engine(mounts=("/sys/fs/cgroup",), slices="/sys/fs/cgroup")),
        # The daemon lives elsewhere, in another machine or another view of the groups.
        (SECOND_ONLY, "cgroupfs", "1", Engine(mounts=("/sys/fs/cgroup",))),
        (HYBRID, "systemd", "2", Engine(mounts=(*FIRST_PLACES, "/sys/fs/cgroup/unified"))),
        (SECOND_ONLY, "none", "2", Engine(mounts=("/sys/fs/cgroup",))),
    ],
)
def test_how_containers_get_below_the_jobs_group(mounts: str, driver: str, version: str, expected: Engine) -> None:
    docker = {"ServerVersion": "28.2", "CgroupDriver": driver, "CgroupVersion": version, "SecurityOptions": []}
    info = state.parse_info(json.dumps(docker))
    assert info is not None and engine_of(info, f"proc /proc proc rw 0 0\n{mounts}") == expected
    rootless = replace(info, rootless=True)
    assert not engine_of(rootless, mounts).nests and not engine_of(rootless, mounts).slices


def test_all_groups_that_docker_makes_are_the_keepers_to_remove_and_the_client_is_in_none() -> None:
    found = container.container_groups(spec_of(context_of().job), NESTED)
    assert set(found.make) == {f"{mount}/htcondor/_execute_slot1" for mount in MOUNTS} and found.join == ()
    assert found.settings == groups().settings and found.freezer == "/sys/fs/cgroup/freezer/htcondor/_execute_slot1"
    second = container.container_groups(spec_of(context_of().job, cgroup=groups(2)), SECOND)
    assert second.make == groups(2).make and second.join == second.own == ()
    words = created(context_of(), engine=SECOND, cgroup=groups(2))
    assert "--cgroup-parent=/htcondor/_execute_slot1.slice" in words


def test_networks_are_those_that_the_administrator_allows() -> None:
    assert "--network=host" in (words := created(context_of(DockerNetworkType="host"))) and "--hostname" not in words
    assert "--network=none" in created(context_of(DockerNetworkType="none"))
    assert not any(word.startswith("--network") for word in created(context_of(DockerNetworkType="nat")))
    allowed = context_of({"DockerNetworks": "mine, yours"}, DockerNetworkType="yours")
    assert "--network=yours" in created(allowed)
    with pytest.raises(LaunchRefusedError, match="DOCKER_NETWORKS"):
        created(context_of({"DockerNetworks": "mine"}, DockerNetworkType="yours"))


def test_services_have_ports() -> None:
    job: dict[str, Any] = {"ContainerServiceNames": "web, ssh", "web_ContainerPort": 8080, "ssh_ContainerPort": 22}
    assert after(created(context_of(**job)), "-p") == ["8080", "22"]
    with pytest.raises(LaunchRefusedError, match="web_container_port"):
        created(context_of(ContainerServiceNames="web"))
    ports = '{"8080/tcp":[{"HostIp":"0.0.0.0","HostPort":"32768"}],"22/tcp":null}'
    assert state.host_ports(ports, [("web", 8080), ("ssh", 22)]) == {"web_HostPort": 32768}
    assert state.host_ports("not json", [("web", 8080)]) == {}


def test_directories_of_the_host_are_mounted_once_and_under_their_conditions() -> None:
    rules = DockerRules(
        volumes=(
            HostVolume("A", "/a:/data:ro"),
            HostVolume("B", "/b:/data"),
            HostVolume("C", "/c:/c", ExprTree('TARGET.WantsC && MY.Machine == "node.example"', old=True)),
        ),
        shm_size=ExprTree("TARGET.Shm * 2", old=True),
        drop_capabilities=ExprTree("TARGET.Tame", old=True),
        extra_arguments=("--read-only",),
    )
    private = Isolation(mounts=(("/execute/dir_1_1/private/tmp", "/tmp"),))
    words = created(context_of(WantsC=True, Shm=4, Tame=False), rules, isolation=private)
    private_tmp = "/execute/dir_1_1/private/tmp:/tmp"
    assert after(words, "--volume") == [f"{SCRATCH}:{SCRATCH}", private_tmp, "/a:/data:ro", "/c:/c"]
    assert after(words, "--shm-size") == ["8"] and "--cap-drop=all" not in words and "--read-only" in words
    plain = created(context_of(), rules)
    assert "/c:/c" not in plain and "--shm-size" not in plain and "--cap-drop=all" in plain


def test_gpus_of_the_slot_are_the_containers_devices() -> None:
    devices = Devices({"GPU-aaaa1111": "/dev/nvidia0", "GPU-bbbb2222": "/dev/nvidia1"})
    always = ("/dev/nvidiactl", "/dev/nvidia-uvm")
    assert devices.of("GPU-bbbb", every=False) == (*always, "/dev/nvidia1")
    assert devices.of("CUDA0,CUDA3", every=False) == (*always, "/dev/nvidia0", "/dev/nvidia3")
    assert devices.of("GPU-bbbb", every=True) == (*always, "/dev/nvidia0", "/dev/nvidia1")
    assert devices.of("", every=True) == ()


def test_the_keeper_runs_a_client_with_its_own_rights_and_none_of_the_jobs_limits() -> None:
    spec = spec_of(context_of().job, limits=Limits(nice=5, umask=0o77, processes=9))
    found = container.attached(spec, ("/usr/bin/python3", "x"), {"DOCKER_HOST": "unix:///d"}, Engine())
    assert found.client and found.exe == "/usr/bin/python3" and found.cwd == "/"
    assert found.env == {"DOCKER_HOST": "unix:///d", "_SLOTWISE_FAMILY": "dir_1_1.x"}
    assert found.limits == Limits(umask=0o77) and found.cgroup == CgroupPlan() and b"client=1" in found.encode()
    for directory in (None, ("/home/ann", 1000, 100, (50, 51)), ("/home/ann", 1000, 100, ())):
        for socket, body in (("", ""), ("/d.sock", "{}")):
            told = launch.words(
                "/errors",
                "name",
                ("docker",),
                ("start", "-a"),
                ["create", "x"],
                directory,
                environment=["A=b", "C=d\ne"],
                socket=socket,
                body=body,
            )
            environment = {"HOME": "/root", **told}
            read = launch.parsed(launch.taken(environment))
            assert environment == {"HOME": "/root"} and read.environment == ["A=b", "C=d\ne"]
            assert (read.errors, read.name, read.directory) == ("/errors", "name", directory)
            assert (read.client, read.start, read.create) == (["docker"], ["start", "-a"], ["create", "x"])
            assert (read.socket, read.body) == (socket, body)


def launched(top: Path, directory: launch.UserDirectory) -> tuple[str, str]:
    """What a client sees that is asked for a container with this directory, after somebody has put a link to ``other``
    in its place; and why there is no container."""
    for place in (top / "mine", top / "other"):
        place.mkdir(exist_ok=True)
        (place / place.name).touch()
    docker = top / "docker"
    docker.write_text(
        f"#!/bin/sh\n[ $1 = create ] && {{ echo $3 | sed 's/.*device=//; s/\"$//' >{top}/given;"
        f" mv {top}/mine {top}/moved; ln -s other {top}/mine; exit; }}\nls $(cat {top}/given)/ >{top}/seen\n"
    )
    docker.chmod(0o755)
    told = launch.words(str(top / "why"), "name", [str(docker)], ["start"], ["create", "image"], directory)
    subprocess.run(launch.program(), env={**os.environ, **told}, check=False)
    seen, why = (place.read_text() if place.exists() else "" for place in (top / "seen", top / "why"))
    return seen, why


def test_the_daemon_gets_the_directory_that_was_there_when_its_user_was_asked_for() -> None:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        top = Path(name)
        top.chmod(0o755)
        assert launched(top, (f"{top}/mine", 65534, 65534, ())) == ("mine\n", "")


@host.needs(host.root)
def test_the_daemon_gets_no_directory_that_the_user_cannot_reach() -> None:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        top = Path(name)
        for closed, open_one in ((top, top / "mine"), (top / "mine", top)):
            (top / "mine").mkdir(exist_ok=True)
            closed.chmod(0o700)
            open_one.chmod(0o755)
            seen, why = launched(top, (f"{top}/mine", 65534, 65534, ()))
            assert (seen, why) == ("", f"{top}/mine: Permission denied")


#: Stands for Docker's program: notes what its command line and its environment show, and what is in the file.
_NOTING = """#!/bin/sh
[ $1 = create ] || exit 0
tr '\\0' '\\n' < /proc/$$/cmdline > {top}/shown
env >> {top}/shown
while [ $# -gt 0 ]; do [ $1 = --env-file ] && cat $2 > {top}/file; shift; done
"""


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ("PASSWORD=hunter2", True),
        ('PASSWORD=  "hunter2"  # $HOME \\', True),
        ("PASSWORD=", True),
        ("PASSWORD=hunter2\nLD_PRELOAD=/tmp/x", False),
        ("PASSWORD=hunter2\r", False),
        ("#PASSWORD=hunter2", False),
        (" PASSWORD=hunter2", False),
        ("PASS*=hunter2", False),
        (f"PASSWORD=hunter2{'x' * 65536}", False),
        ("PASSWORD=hunter2\udce9", False),
    ],
)
def test_the_environment_of_a_job_is_on_no_command_line(tmp_path: Path, entry: str, fits: bool) -> None:
    docker = tmp_path / "docker"
    docker.write_text(_NOTING.format(top=tmp_path))
    docker.chmod(0o755)
    told = launch.words(
        str(tmp_path / "why"), "name", [str(docker)], ["start"], ["create", "image"], environment=["A=b", entry]
    )
    assert not any("hunter2" in word for word in launch.program())
    done = subprocess.run(launch.program(), env={"PATH": os.environ["PATH"], **told}, check=False)
    if fits:
        assert done.returncode == 0
        assert (tmp_path / "file").read_text() == f"A=b\n{entry}\n"
        shown = (tmp_path / "shown").read_text()
        assert "--env-file" in shown and "hunter2" not in shown and "_SLOTWISE" not in shown
    else:
        assert done.returncode == launch.NO_CONTAINER and not (tmp_path / "shown").exists()
        name = entry.partition("=")[0]
        assert f"cannot be given the variable {name}, which has a line end" in (tmp_path / "why").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["--env-file", "/root/list"],
        ["-e", "FROM_THE_PROGRAM"],
        ["--network", "a", "--network", "b"],
        ["--security-opt", "seccomp=/etc/rules.json"],
        ["--memory", "1.5g"],
        ["--init=false"],
        ["--gpus", "all"],
        ["-v", "named:/data"],
        ["-it"],
        ["-p", "80:8080"],
        ["-e", f"LONG={'x' * 131072}"],
    ],
)
def test_what_only_dockers_program_knows_is_left_to_it(words: list[str]) -> None:
    assert create_body(["create", "image"])
    assert create_body(["create", *words, "image"]) == ""
    assert create_body(["create", *words]) == ""


def test_the_text_that_creates_a_container_has_one_place_for_its_open_directory() -> None:
    hostile = ["-e", "A=\\u0000\n", "image", "\n", "\\n"]
    assert "\n" not in create_body(["create", *hostile])
    parts = create_body(["create", *hostile], ('/home/"ann\n', 1, 1, ())).split("\n")
    assert len(parts) == 2
    of_job = json.loads(create_body(["create", "-e", "A=1", "image"], None, ["A=2", "B=\n"]))
    assert of_job["Env"] == ["A=2", "B=\n", "A=1"]  # the administrator's words come last
    read = json.loads("/proc/1/fd/3".join(parts))
    assert read["Env"] == ["A=\\u0000\n"] and read["Cmd"] == ["\n", "\\n"]
    (mount,) = read["HostConfig"]["Mounts"]
    assert mount["Target"] == '/home/"ann\n'
    assert mount["VolumeOptions"]["DriverConfig"]["Options"]["device"] == "/proc/1/fd/3"


@pytest.mark.parametrize(
    ("head", "env", "settings", "expected"),
    [
        (b"\x7fELF", {}, None, "/var/run/docker.sock"),
        (b"\x7fELF", {"DOCKER_HOST": "unix:///run/d.sock"}, "{}", "/run/d.sock"),
        (b"#!/bin/sh\n", {"DOCKER_HOST": "unix:///run/d.sock"}, None, ""),
        (b"\x7fELF", {"DOCKER_HOST": "tcp://host:2375"}, None, ""),
        (b"\x7fELF", {"DOCKER_CONTEXT": "other"}, None, ""),
        (b"\x7fELF", {}, '{"currentContext": "other"}', ""),
        (b"\x7fELF", {}, '{"currentContext": "default", "auths": {}}', "/var/run/docker.sock"),
        (b"\x7fELF", {}, '{"proxies": {"default": {"httpProxy": "http://proxy"}}}', ""),
        (b"\x7fELF", {}, "not JSON", ""),
    ],
)
def test_the_daemons_socket_is_used_where_the_program_adds_nothing(
    tmp_path: Path, head: bytes, env: dict[str, str], settings: str | None, expected: str
) -> None:
    program = tmp_path / "docker"
    program.write_bytes(head)
    program.chmod(0o755)
    (tmp_path / ".docker").mkdir()
    if settings is not None:
        (tmp_path / ".docker/config.json").write_text(settings)
    found = Client((str(program),), tmp_path, {"HOME": str(tmp_path), **env})
    assert socket_of(found) == expected
    assert socket_of(Client((str(program), "--context", "x"), tmp_path, found.env)) == ""


def test_a_job_without_file_transfer_has_its_directory_by_its_descriptor_or_by_its_name() -> None:
    context = replace(context_of(), transfers=False)
    spec = spec_of(context.job, cwd="/home/ann")
    assert container.users_directory(spec, context, NESTED, (1000, 100)) == ("/home/ann", 1000, 100, (50,))
    assert "/home/ann:/home/ann" not in created(context, cwd="/home/ann")
    by_name = replace(NESTED, mounts_open=False)
    assert container.users_directory(spec, context, by_name, (1000, 100)) is None
    assert "/home/ann:/home/ann" in created(context, engine=by_name, cwd="/home/ann")
    assert container.users_directory(spec, context_of(), NESTED, (1000, 100)) is None


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("debian", "debian:latest"),
        ("docker://debian:12", "debian:12"),
        ("reg:5000/a/b", "reg:5000/a/b:latest"),
        ("reg:5000/a:1", "reg:5000/a:1"),
        ("a@sha256:00", "a@sha256:00"),
    ],
)
def test_names_of_images(name: str, normal: str) -> None:
    assert images.normalized(name) == normal
    mark = images.marked(normal, "Ann+x@example.org")
    assert mark == mark.lower() and mark.startswith("htcondor.org/") and mark.count(":") <= 1
    assert images.original(mark) == images.original(images.pulled(normal)) == ("" if "@" in normal else normal)
    assert images.marked(normal, "ann@example.org").startswith("htcondor.org/ann_at_example.org/")
    assert images.original(normal) == ""


@host.needs(host.root)
@pytest.mark.parametrize(("directory", "held"), [("closed/open", True), ("open", False), ("open:ro", True)])
def test_the_daemon_mounts_no_directory_that_the_jobs_user_cannot_reach(directory: str, *, held: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        top = Path(name)
        top.chmod(0o755)
        (top / directory).mkdir(parents=True)
        if "/" in directory:
            (top / directory).parent.chmod(0o700)
        context = replace(context_of(Iwd=str(top / directory)), transfers=False)
        job = ContainerJob("12.3#1", Choice("docker", "debian"), context)
        made = Docker(DockerRules(program=("no-docker",)), top, top).prepare(job, lambda _said: None)
        with pytest.raises(LaunchRefusedError, match="initial working directory" if held else "Cannot pull image"):
            asyncio.run(made)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("registry.example:5000/a/b_c@sha256:00ff", True),
        ("debian", True),
        ("--volume=/:/host@x", False),
        ("-h:x", False),
        ("debian --privileged", False),
        ("debian\n", False),
        ("*", False),
        ("", False),
    ],
)
def test_an_image_is_a_name_and_no_option(name: str, *, good: bool) -> None:
    assert images.is_name(images.normalized(name)) is good


def test_only_images_that_jobs_pulled_go_those_first_that_were_not_used_for_longest() -> None:
    def image(name: str, number: int, used: str, *, fetched: bool = True) -> list[Image]:
        names = [images.marked(name, "ann@x"), *([images.pulled(name)] if fetched else [])]
        return [Image(one, f"sha256:{number}", 10, used) for one in names]

    known = [*image("a:1", 1, "2024-01-03"), *image("b:1", 2, "2024-01-01"), *image("c:1", 3, "2024-01-02")]
    known += image("admins:1", 4, "2023-01-01", fetched=False)
    assert images.to_remove(known, 3, []) == []
    assert images.to_remove(known, 2, []) == [[images.marked("b:1", "ann@x"), "b:1", images.pulled("b:1")]]
    assert [names[1] for names in images.to_remove(known, 0, ["b:1"])] == ["c:1", "a:1"]
    assert images.cached_bytes(known) == 30
    listed = images.parse_listing(["htcondor.org/x/a:1 sha256:1", "<none>:<none> sha256:2", ""], {"1": ("t", 5)})
    assert listed == [Image("htcondor.org/x/a:1", "sha256:1", 5, "t")]
    assert images.parse_details("sha256:1 5 2024-01-01 10:00:00\nbad\n") == {"1": ("2024-01-01 10:00:00", 5)}


def ended(text: str, result: KeeperResult | None = None) -> KeeperResult:
    found = state.parse_state(text)
    assert found is not None
    return state.corrected(result or KeeperResult(how="exited", code=1), found)


def test_how_a_container_ended() -> None:
    own = ended('{"Status":"exited","ExitCode":7}')
    assert (own.how, own.code) == ("exited", 7)
    killed = ended('{"Status":"exited","ExitCode":137,"OOMKilled":true}')
    assert (killed.how, killed.code, killed.oom_kills) == ("signaled", 9, 1)
    end = classify(killed, None, context_of().job, MemoryRule(64))
    assert (end.reason_code, end.reason_subcode) == (34, 102)
    assert ended('{"Status":"exited","ExitCode":255}').code == 255
    failed = ended('{"Status":"created","ExitCode":127,"Error":"no such file"}')
    end = classify(failed, None, context_of().job, MemoryRule())
    assert end.reason_code == 6 and end.reason == "Error running docker job: no such file"
    before = KeeperResult(how="signaled", code=15, ended_by="soft")
    assert ended('{"Status":"created","ExitCode":0}', before) == before
    assert state.parse_state("[]") is None and state.parse_state("no") is None
    assert state.corrected(KeeperResult(how="exited", code=137), None).how == "lost"
    lost = KeeperResult(how="lost")
    assert ended('{"Status":"exited","ExitCode":0}', lost) == lost


def test_what_the_daemon_is() -> None:
    docker = '{"ServerVersion":"28.2","CgroupDriver":"systemd","CgroupVersion":"2","SecurityOptions":[]}'
    assert state.parse_info(docker) == state.EngineInfo(server="28.2", cgroup_driver="systemd", cgroup_version="2")
    host = '{"cgroupManager":"cgroupfs","cgroupVersion":"v1","security":{"rootless":true}}'
    podman = state.parse_info(f'{{"host":{host},"version":{{"Version":"4.3"}}}}')
    assert podman == state.EngineInfo(True, "4.3", "cgroupfs", "1", rootless=True)
    away = state.parse_info('{"ServerErrors":["Cannot connect to the Docker daemon"]}')
    assert away is not None and not away.server and away.errors
    assert state.client_problem("Docker version 28.2.2, build e6534b4\n") == ""
    assert state.client_problem("podman version 4.3.1\n") == ""
    assert "OpenBox" in state.client_problem("docker 1.5\nby Ben Jansens\n")
    assert "20.10.4" in state.client_problem("Docker version 20.10.4, build 1")
    assert is_host_failure("Error: toomanyrequests: slow down") and not is_host_failure("manifest unknown")
    assert is_host_failure("dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host")
    assert not is_host_failure("dial tcp: lookup registry.mistaken on 10.0.0.1:53: no such host")


def test_the_test_image_is_a_program_for_this_processor() -> None:
    body = test_image.program("x86_64")
    assert body is not None and body[:4] == b"\x7fELF" and len(body) == 132
    assert test_image.program("aarch64") is not None and test_image.program("s390x") is None


def test_what_went_over_a_containers_networks() -> None:
    both = {
        "networks": {"eth0": {"rx_bytes": 1_200_000, "tx_bytes": 5}, "eth1": {"rx_bytes": 300_000, "tx_bytes": "?"}}
    }
    assert state.counted_traffic(both) == state.Traffic(1_500_000, 5)
    assert state.counted_traffic({}) == state.counted_traffic({"networks": None}) == state.Traffic(0, 0)
    assert state.parse_traffic("1.2kB / 656B\n") == state.Traffic(1200, 656)
    assert state.parse_traffic("3.5MB / 2GB") == state.Traffic(3.5e6, 2e9)
    assert state.parse_traffic("-- / --") is None and state.parse_traffic("") is None
    assert state.network_attributes(state.Traffic(1_500_000, 5)) == {
        "NetworkInputMb": 1.5,
        "NetworkOutputMb": 0.000005,
    }


def configuration(tmp_path: Path, text: str) -> Config:
    (tmp_path / "config").write_text(text)
    return load(str(tmp_path / "config"), env={}, cwd=tmp_path)


def test_the_knobs(tmp_path: Path) -> None:
    text = (
        "DOCKER = sudo /usr/bin/docker\nDOCKER_MOUNT_VOLUMES = A, B, NONE\nDOCKER_VOLUME_DIR_A = /a\n"
        "DOCKER_VOLUME_DIR_B = /b:/inside:ro\nDOCKER_VOLUME_DIR_B_MOUNT_IF = TARGET.Wants\nDOCKER_VOLUMES = X Y\n"
        "DOCKER_EXTRA_ARGUMENTS = --a b\nDOCKER_RUN_UNDER_INIT = false\nDOCKER_IMAGE_CACHE_SIZE = -3\n"
        "DOCKER_DROP_ALL_CAPABILITIES = false\nDOCKER_PULL_TIMEOUT = 60\n"
    )
    rules = read_docker(configuration(tmp_path, text))
    assert rules.program == ("sudo", "/usr/bin/docker") and rules.advertised == ("X", "Y")
    assert [(volume.name, volume.mount) for volume in rules.volumes] == [("A", "/a:/a"), ("B", "/b:/inside:ro")]
    assert rules.volumes[1].is_mounted(ClassAd(), ClassAd({"Wants": True}))
    assert not rules.volumes[1].is_mounted(ClassAd(), ClassAd())
    assert rules.extra_arguments == ("--a", "b") and not rules.under_init and rules.cache_size == 0
    assert not rules.drops_capabilities(ClassAd(), ClassAd()) and rules.pull_timeout_s == 60
    assert rules.misread == ("DOCKER_MOUNT_VOLUMES names NONE, and there is no DOCKER_VOLUME_DIR_NONE",)
    plain = read_docker(configuration(tmp_path, ""))
    assert plain.program == ("/usr/bin/docker",) and plain.cache_size == 8 and plain.misread == ()
    assert plain.drops_capabilities(ClassAd(), ClassAd()) and plain.keeps_no_log and plain.perform_test
    assert plain.pull_timeout_s == 3600
    assert read_docker(configuration(tmp_path, "DOCKER =\n")).program == ()


def test_a_client_without_a_daemon_is_not_even_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PATH", str(tmp_path))
    monkeypatch.setattr(client, "_SOCKET", tmp_path / "sock")
    program = tmp_path / "docker"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    docker = client.Client(("docker",), tmp_path, {"HOME": str(tmp_path)})
    assert "no daemon" in docker.daemon_missing()
    assert client.Client(("docker",), tmp_path, {"DOCKER_HOST": "tcp://host"}).daemon_missing() == ""
    program.write_bytes(b"#!/bin/sh\nexec podman")
    assert docker.daemon_missing() == ""
    program.write_bytes(b"\x7fELF")
    (tmp_path / "sock").touch()
    assert docker.daemon_missing() == ""
    assert client.Client(("docker",), tmp_path / "none", {}).command()[0].endswith("docker")
    assert client.client_environment({"_CONDOR_X": "1", "SLOTWISE_Y": "2", "DOCKER_HOST": "h"})["DOCKER_HOST"] == "h"
    assert "_CONDOR_X" not in client.client_environment({"_CONDOR_X": "1"})
