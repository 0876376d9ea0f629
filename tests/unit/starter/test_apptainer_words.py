"""How Apptainer is called for a job, compared with HTCondor's ``Singularity::setup``."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from slotwise.classad import ClassAd, ExprTree
from slotwise.config import load
from slotwise.execution.job_view import JobView, read_job, read_slot
from slotwise.execution.keeper_spec import Identity, Isolation, KeeperSpec
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.apptainer import Apptainer, ApptainerSettings, find_program, image_of, read_apptainer
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.images import STARTER, CacheSettings, ImageCache, Pull
from slotwise.starter.runtimes.runtime import ContainerJob, Progress

from tests.support import host

_PLACE = Path("/nowhere")
_RUN = "/execute/dir_1_1"
_SCRATCH = f"{_RUN}/scratch"


def a_job(
    ad: dict[str, Any], machine: dict[str, Any], *, transfers: bool = True, image: str = "/image"
) -> ContainerJob:
    job_ad = ClassAd({"ClusterId": 1, "ProcId": 0, "Iwd": "/home/ann", **ad})
    view: JobView = read_job(lookup(job_ad), "ann@here")
    machine_ad = ClassAd({"Name": "slot1@ep", **machine})
    directory = RunDirectory(Path(_RUN), Path("/control/dir_1_1"))
    slot = read_slot(lookup(machine_ad))
    context = JobContext(view, slot, job_ad, machine_ad, directory, Identity(), transfers, root=True, in_image=True)
    return ContainerJob("1.0#1", Choice("apptainer", image), context, scratch_mounts=("/tmp",), image=image)


def composed(settings: ApptainerSettings, job: ContainerJob, exe: str = "/bin/prog", **env: str) -> KeeperSpec:
    spec = KeeperSpec(
        name="dir_1_1", exe=exe, args=(exe, "a b"), env=env, cwd=_SCRATCH, isolation=Isolation(mounts=(("/x", "/tmp"),))
    )
    driver = Apptainer(settings, ImageCache(CacheSettings(), _PLACE), _PLACE, _PLACE)
    return driver.compose(spec, replace(job, spec=spec))


_PLAIN = ApptainerSettings(program="/usr/bin/apptainer")


def words(settings: ApptainerSettings = _PLAIN, exe: str = "/bin/prog", **given: Any) -> str:
    job = a_job(given.pop("ad", {}), given.pop("machine", {}), **given)
    return " ".join(composed(settings, job, exe).args)


def test_a_job_whose_files_move() -> None:
    shown = f"-W {_SCRATCH} --pwd {_SCRATCH} -B {_RUN} --home {_SCRATCH} -C"
    assert words() == f"/usr/bin/apptainer -s exec -S /tmp {shown} /image /bin/prog a b"


def test_a_job_without_a_program_runs_the_images_own() -> None:
    assert words(exe="").startswith("/usr/bin/apptainer -s run ") and words(exe="").endswith(" /image a b")


def test_a_job_on_a_shared_file_system() -> None:
    text = words(transfers=False)
    assert f"--pwd /home/ann -B /home/ann -B {_RUN} -C" in text and "--home" not in text
    text = words(transfers=False, ad={"ContainerTargetDir": "/work"})
    assert f"--pwd /work -B /home/ann -B /home/ann:/work -B {_RUN}:/condor_scratch -C" in text


@pytest.mark.parametrize("target", ["/x,/etc:/y", "/x:/etc", "relative", "/a\n/b"])
def test_a_target_directory_is_one_path(target: str) -> None:
    with pytest.raises(LaunchRefusedError, match="container_target_dir"):
        words(ad={"ContainerTargetDir": target})
    with pytest.raises(LaunchRefusedError, match="SINGULARITY_TARGET_DIR"):
        words(replace(_PLAIN, target_dir=target))


def test_the_administrators_target_directory_counts_more_than_the_jobs() -> None:
    ad = {"ContainerTargetDir": "/jobs"}
    assert f"--pwd /jobs/scratch -B {_RUN}:/jobs " in words(ad=ad)
    text = words(replace(_PLAIN, target_dir="/target"), exe=f"{_SCRATCH}/prog", ad=ad)
    assert f"--pwd /target/scratch -B {_RUN}:/target " in text and text.endswith("/target/scratch/prog a b")


@pytest.mark.parametrize(
    ("machine", "rocm", "flags"),
    [
        ({}, True, set()),
        ({"AssignedGPUs": "GPU-1"}, False, set()),
        ({"AssignedGPUs": "GPU-1", "GPUs_NvidiaDriver": "550"}, False, {"--nv"}),
        ({"AssignedGPUs": "GPU-1", "GPUs_Rocm": 6}, False, {"--rocm"}),
        ({"AssignedGPUs": "GPU-1"}, True, {"--rocm"}),
    ],
)
def test_gpus_are_shown_to_jobs_that_have_some(machine: dict[str, Any], rocm: bool, flags: set[str]) -> None:
    found = words(replace(_PLAIN, rocm=rocm), machine=machine).split()
    assert {"--nv", "--rocm"} & set(found) == flags


def test_directories_that_the_host_or_the_image_lacks_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "image/there").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    text = f"{tmp_path}/data:/there {tmp_path}/data:/missing:ro /none:/there"
    settings = replace(_PLAIN, bind=ExprTree(f'"{text}"', old=True))
    image = str(tmp_path / "image")
    assert [word for word in words(settings, image=image).split() if "/data" in word or "/none" in word] == [
        f"{tmp_path}/data:/there", f"{tmp_path}/data:/missing:ro"
    ]  # fmt: skip
    lenient = replace(settings, ignores_missing_target=True)
    assert [word for word in words(lenient, image=image).split() if "/data" in word] == [f"{tmp_path}/data:/there"]


def test_extra_arguments_are_an_expression_or_words() -> None:
    given: dict[str, Any] = {"ad": {"Owner": "ann"}}
    assert " -C -w --nv /image" in words(replace(_PLAIN, extra="-w --nv"), **given)
    extra = 'TARGET.Owner == "ann" ? "-w" : "-x"'
    assert " -C -w /image" in words(replace(_PLAIN, extra=extra), **given)


def test_without_process_namespaces_as_much_as_possible_is_contained() -> None:
    assert " --contain --ipc --cleanenv " in words(replace(_PLAIN, pid_namespaces=False))


def test_the_environment_is_inside_as_it_is_outside_with_moved_paths() -> None:
    settings = replace(_PLAIN, target_dir="/target", allowed_variables=frozenset({"APPTAINER_FINE"}))
    given = {
        "HOME": "/home/ann", "COLOR": "red", "_CONDOR_SCRATCH_DIR": _SCRATCH, "APPTAINER_BIND": "/etc:/mnt",
        "SINGULARITY_BIND": "/etc:/mnt", "APPTAINER_FINE": "1", "APPTAINER_DOCKER_USERNAME": "ann",
        "APPTAINERENV_X": "2",
    }  # fmt: skip
    env = dict(composed(settings, a_job({}, {}), **given).env)
    assert env["COLOR"] == env["APPTAINERENV_COLOR"] == "red"
    assert env["_CONDOR_SCRATCH_DIR"] == env["APPTAINER_CACHEDIR"] == _SCRATCH
    assert env["APPTAINERENV__CONDOR_SCRATCH_DIR"] == "/target/scratch"
    assert env["APPTAINERENV__CONDOR_SCRATCH_DIR_OUTSIDE_CONTAINER"] == _SCRATCH
    assert (env["APPTAINER_FINE"], env["APPTAINER_DOCKER_USERNAME"], env["APPTAINERENV_X"]) == ("1", "ann", "2")
    assert not {"HOME", "APPTAINERENV_HOME", "APPTAINER_BIND", "SINGULARITY_BIND"} & set(env)


def test_the_container_has_its_private_directories_itself() -> None:
    assert composed(_PLAIN, a_job({}, {})).isolation.mounts == ()


@pytest.mark.parametrize(
    ("image", "ad", "transfers", "found"),
    [
        ("x.sif", {}, True, f"{_SCRATCH}/x.sif"),
        ("x.sif", {}, False, "/home/ann/x.sif"),
        ("/images/x", {}, True, "/images/x"),
        ("oras://a/b", {}, True, "oras://a/b"),
        ("debian:12", {"WantDockerImage": True}, True, "docker://debian:12"),
    ],
)
def test_where_an_image_is(image: str, ad: dict[str, Any], transfers: bool, found: str) -> None:
    assert image_of(a_job(ad, {}, transfers=transfers, image=image)) == found


def test_a_program_that_is_not_there_is_not_replaced_by_another(tmp_path: Path) -> None:
    program = tmp_path / "apptainer"
    program.touch(mode=0o755)
    assert find_program(str(program)) == str(program)
    program.chmod(0o644)
    assert find_program(str(program)) == ""


@host.needs(host.root)
def test_nothing_runs_as_root_with_the_jobs_variables() -> None:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as directory:
        top = Path(directory)
        top.chmod(0o777)
        programs = {
            "apptainer": '#!/bin/sh\necho "$(id -u) $(id -G) $COLOR"\nexit 3\n',
            "setpriv": "#!/bin/sh\necho stolen by $(id -u)\nexit 3\n",
        }
        for name, text in programs.items():
            (top / name).write_text(text)
            (top / name).chmod(0o755)
        image, scratch = top / "image.sif", top / "scratch"
        image.touch()
        scratch.mkdir()
        scratch.chmod(0o777)
        job = a_job({}, {}, image=str(image))
        identity, run = Identity(65534, 65534, (12,)), RunDirectory(top, top / "control")
        spec = KeeperSpec(
            name="dir_1_1", exe="/x", args=("x",), env={"PATH": f"{top}:/usr/bin:/bin", "COLOR": "r\udce9d"}, cwd="/"
        )
        job = replace(job, spec=spec, context=replace(job.context, directory=run, identity=identity))
        driver = Apptainer(replace(_PLAIN, program=str(top / "apptainer")), ImageCache(CacheSettings(), top), top, top)
        with pytest.raises(LaunchRefusedError, match=r"test failed:65534 65534 12 r.d$"):
            asyncio.run(driver.prepare(job, lambda _said: None))


@pytest.mark.parametrize(("fails", "tests"), [(False, 1), (True, 3)])
def test_of_jobs_that_come_together_one_tests_their_image(tmp_path: Path, *, fails: bool, tests: int) -> None:
    count = tmp_path / "count"
    program = tmp_path / "apptainer"
    program.write_text(f"#!/bin/sh\necho tested >>{count}\nexit {int(fails)}\n")
    program.chmod(0o755)
    image = tmp_path / "image.sif"
    image.touch()
    run = RunDirectory(tmp_path / "run", tmp_path / "control")
    run.scratch.mkdir(parents=True)
    job = a_job({}, {}, image=str(image))
    spec = KeeperSpec(name="dir_1_1", exe="/x", args=("x",), env={}, cwd="/")
    job = replace(job, spec=spec, context=replace(job.context, directory=run, identity=Identity()))
    driver = Apptainer(replace(_PLAIN, program=str(program)), ImageCache(CacheSettings(), tmp_path), tmp_path, tmp_path)

    async def together() -> list[object]:
        jobs = (driver.prepare(job, lambda _said: None) for _ in range(3))
        return list(await asyncio.gather(*jobs, return_exceptions=True))

    ends = asyncio.run(together())
    assert [isinstance(end, LaunchRefusedError) for end in ends] == [fails] * 3
    assert count.read_text().count("tested") == tests


def test_an_unpacked_image_is_tested_again_when_it_changes_and_after_a_while(tmp_path: Path) -> None:
    count, program = tmp_path / "count", tmp_path / "apptainer"
    program.write_text(f"#!/bin/sh\necho tested >>{count}\n")
    program.chmod(0o755)
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    run = RunDirectory(tmp_path / "run", tmp_path / "control")
    run.scratch.mkdir(parents=True)
    now = 0.0
    driver = Apptainer(
        replace(_PLAIN, program=str(program)),
        ImageCache(CacheSettings(), tmp_path),
        tmp_path,
        tmp_path,
        monotonic=lambda: now,
    )

    def tests(image: Path = image) -> int:
        """How many tests it has taken when one more job has come."""
        job = a_job({}, {}, image=str(image))
        spec = KeeperSpec(name="dir_1_1", exe="/x", args=("x",), env={}, cwd="/")
        job = replace(job, spec=spec, context=replace(job.context, directory=run, identity=Identity()))
        asyncio.run(driver.prepare(job, lambda _said: None))
        return count.read_text().count("tested")

    assert [tests(), tests()] == [1, 1]
    (image / "bin/sh").touch()
    assert [tests(), tests()] == [2, 2]
    now = 301.0
    assert [tests(), tests()] == [3, 3]
    (run.scratch / "image").mkdir()
    assert [tests(run.scratch / "image"), tests(run.scratch / "image")] == [4, 5], "the job's own may change unseen"


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        ("docker://debian:12", True),
        ("https://example.org/x.sif", True),
        ("docker-archive:///root/image.tar", False),
        ("docker-daemon://private:1", False),
        ("oci:///root/image", False),
    ],
)
def test_images_of_this_host_are_not_pulled_with_the_starters_rights(image: str, *, pulled: bool) -> None:
    class Cache(ImageCache):
        async def get(self, name: str, pull: Pull, progress: Progress, identity: Identity = STARTER) -> Path:
            return Path("/cache/pulled.sif")

    driver = Apptainer(replace(_PLAIN, tests_image=False), Cache(CacheSettings(), _PLACE), _PLACE, _PLACE)
    found = asyncio.run(driver.prepare(a_job({}, {}, image=image), lambda _said: None)).image
    assert found == ("/cache/pulled.sif" if pulled else image)


def test_an_image_is_no_option() -> None:
    assert image_of(a_job({}, {}, image="--bind=/etc:/x://")) == f"{_SCRATCH}/--bind=/etc:/x://"


async def test_a_program_that_is_named_and_not_there_is_told(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("SINGULARITY = /nowhere/apptainer\n")
    settings = read_apptainer(load(str(config), env={}, cwd=tmp_path))
    driver = Apptainer(settings, ImageCache(CacheSettings(), _PLACE), _PLACE, _PLACE)
    await driver.probe()
    why = "SINGULARITY names /nowhere/apptainer, where there is no program"
    assert driver.offer.attributes == {"HasSingularity": False, "SingularityOfflineReason": why}
    assert driver.offer.reason == why


@pytest.mark.parametrize(
    "does",
    [
        "exit 0",
        'for last; do :; done; [ "$1" = build ] && mkdir -p "$3"; exit 0',
        'echo "$1"; [ "$1" = build ] && ln -sf /no/such "$3"; exit 0',
        'rm -f "$0"; exit 0',
    ],
)
async def test_a_program_that_is_not_apptainer_is_a_runtime_that_does_not_work(tmp_path: Path, does: str) -> None:
    program = tmp_path / "odd"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 3.8\n{does}\n')
    program.chmod(0o755)
    tmp_path.chmod(0o755)
    driver = Apptainer(
        ApptainerSettings(program=str(program)), ImageCache(CacheSettings(), tmp_path), tmp_path / "place", tmp_path
    )
    await driver.probe()
    assert not driver.offer.works and driver.offer.attributes["HasSingularity"] is False
