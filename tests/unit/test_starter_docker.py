"""What Docker jobs are made of: arguments, groups, images, and what the daemon says, without a daemon."""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
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
from slotwise.starter.runtimes.docker.container import Devices, Engine
from slotwise.starter.runtimes.docker.driver import Docker
from slotwise.starter.runtimes.docker.images import Image
from slotwise.starter.runtimes.docker.rules import DockerRules, HostVolume, read_docker
from slotwise.starter.runtimes.runtime import ContainerJob

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
    assert after(words, "--group-add") == ["50"] and after(words, "-e") == ["HOME=/home/ann", "A=b c"]
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
    assert "--cgroup-parent=htcondor-_execute_slot1.slice" in words and "--memory=100m" in words
    watched = container.container_groups(groups(2), engine)
    place = "/sys/fs/cgroup/htcondor.slice/htcondor-_execute_slot1.slice"
    assert (watched.freezer, watched.memory, watched.cpu, watched.make) == (place, place, place, ())


def test_all_groups_that_docker_makes_are_the_keepers_to_remove_and_the_client_is_in_none() -> None:
    found = container.container_groups(groups(), NESTED)
    assert set(found.make) == {f"{mount}/htcondor/_execute_slot1" for mount in MOUNTS} and found.join == ()
    assert found.settings == groups().settings and found.freezer == "/sys/fs/cgroup/freezer/htcondor/_execute_slot1"
    second = container.container_groups(groups(2), SECOND)
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
    words = launch.words("/errors", "name", ("docker",), ("start", "-a"), ["create", "x"])
    assert launch.parsed(words) == ("/errors", "name", ["docker"], ["start", "-a"], ["create", "x"])


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may use the rights of others")
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
        made = Docker(DockerRules(program=("no-docker",)), top).prepare(job, lambda _said: None)
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
    assert state.is_understood("Docker version 28.2.2, build e6534b4\n") == ""
    assert state.is_understood("podman version 4.3.1\n") == ""
    assert "OpenBox" in state.is_understood("docker 1.5\nby Ben Jansens\n")
    assert "20.10.4" in state.is_understood("Docker version 20.10.4, build 1")
    assert state.is_host_failure("Error: toomanyrequests: slow down") and not state.is_host_failure("manifest unknown")


def test_the_test_image_is_a_program_for_this_processor() -> None:
    body = test_image.program("x86_64")
    assert body is not None and body[:4] == b"\x7fELF" and len(body) == 132
    assert test_image.program("aarch64") is not None and test_image.program("s390x") is None


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
    monkeypatch.setattr(client, "_PATH", str(tmp_path))
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
