"""Runs jobs in containers of Docker's daemon, or of podman."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.daemon.containment import contained
from slotwise.errors import HostError
from slotwise.execution.exit_status import IMAGE_FAILED, INVALID_DOCKER_IMAGE, IWD_ERROR, STARTER_ERROR, End, How, held
from slotwise.execution.keeper_spec import KeeperResult, KeeperSpec
from slotwise.starter.enforcement import gpu_hiding
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.docker import images, launch, state, test_image
from slotwise.starter.runtimes.docker.client import Client
from slotwise.starter.runtimes.docker.container import (
    RUN_LABEL,
    Devices,
    Engine,
    attached,
    container_name,
    create_arguments,
    service_ports,
)
from slotwise.starter.runtimes.docker.rules import DockerRules
from slotwise.starter.runtimes.images import CacheSettings, PullRecord, SharedWork
from slotwise.starter.runtimes.runtime import ContainerJob, ContainerRun, Entrance, Probe, Progress

_log = logging.getLogger(__name__)

#: Why a container could not be created, in the control directory of its run.
_ERRORS = "container.error"
#: How long the daemon may take to say what it is, and the test container to run, seconds.
_PROBE_S, _TEST_S = 20.0, 60.0
#: How long an image that was here counts as here, seconds.
_SEEN_S = 10.0
#: How long the daemon may take to notice the end of a container, seconds.
_END_S = 20.0


class Docker:
    """The driver. All methods are for the event loop's thread.

    :param execute: the EXECUTE whose containers it removes.
    :param record: whether pulls keep failing here.
    """

    name = "docker"

    def __init__(
        self,
        rules: DockerRules,
        execute: Path,
        record: PullRecord | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = rules
        self._execute = execute
        self._client = Client(rules.program, execute)
        self._monotonic = monotonic
        self._engine = Engine()
        self._found = Probe(works=False)
        self._pulls: SharedWork[None] = SharedWork()
        self._record = record or PullRecord(CacheSettings())
        self._devices = Devices()
        #: Architectures of images that were here, and when.
        self._seen: dict[tuple[str, ...], tuple[str, float]] = {}
        self._cached_mib: int | None = None
        self._measured_at: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- what it offers

    @property
    def offer(self) -> Probe:
        """What it can do now."""
        found = self._found
        if found.works and self._record.problem:
            return _broken(found, f"pulls of images keep failing: {self._record.problem}")
        if found.works and self._cached_mib is not None:
            return replace(found, attributes={**found.attributes, "DockerCachedImageSizeMb": self._cached_mib})
        return found

    async def probe(self) -> None:
        """Run the test container."""
        try:
            self._found = await self._probed()
        except HostError as error:
            self._found = _broken(self._found, str(error))

    async def _probed(self) -> Probe:
        if self._client.path() is None:
            return Probe(works=False)
        if missing := self._client.daemon_missing():
            return _broken(Probe(works=False), missing)
        version = (await self._client.output("-v", limit_s=_PROBE_S)).strip()
        known = Probe(works=True, version=version)
        if wrong := state.is_understood(version):
            return _broken(known, wrong)
        if self._rules.hides_scratch and os.geteuid() == 0:
            why = "the daemon cannot see scratch volumes, which LVM_HIDE_MOUNT hides: set LVM_HIDE_MOUNT = false"
            return _broken(known, why)
        info = state.parse_info(await self._client.output("info", "--format", "{{json .}}", limit_s=_PROBE_S))
        if info is None or not info.server:
            why = state.one_line("; ".join(info.errors)) if info is not None else ""
            return _broken(known, why or "its daemon does not answer")
        self._engine = _engine(info, Path("/proc/self/mounts").read_text())
        self._devices = Devices(
            {uuid: f"/dev/nvidia{minor}" for uuid, (_major, minor) in gpu_hiding.find_gpus().items()}
        )
        gaps = list(self._rules.misread)
        if self._rules.perform_test:
            failure = await self._tested(init=self._rules.under_init)
            if failure and self._rules.under_init and not await self._tested(init=False):
                gaps.append(f"DOCKER_RUN_UNDER_INIT has no effect: {failure}")
                self._engine = replace(self._engine, under_init=False)
                failure = ""
            if failure:
                return _broken(known, failure)
        if not self._engine.nests and not self._engine.slices:
            gaps.append(
                "Docker jobs are limited by Docker alone; their use is not measured, and they are not suspended: its "
                f"cgroup driver is {info.cgroup_driver or 'none'}"
            )
        return replace(known, attributes=self._attributes(version), gaps=tuple(gaps))

    def _attributes(self, version: str) -> dict[str, Value]:
        found: dict[str, Value] = {
            "HasDocker": True,
            "HasDockerURL": True,
            "HasContainer": True,
            "DockerVersion": version,
        }
        if self._rules.networks:
            found["DockerNetworks"] = self._rules.networks
        return found | {f"HasDockerVolume{name}": True for name in self._rules.advertised}

    async def _tested(self, *, init: bool) -> str:
        """Run the test container; why it fails, in words, empty when it works."""
        image = await self._test_image()
        words = ["run", "--rm", "--network=none", *(["--init"] if init else []), image, test_image.PROGRAM]
        try:
            answer = await self._client.call(*words, limit_s=_TEST_S)
        except OSError as error:
            return f"{self._client.words[0]}: {error.strerror or error}"
        if answer.status == test_image.STATUS:
            return ""
        said = state.one_line(answer.errors or answer.output)
        how = f"no end in {_TEST_S:g} s" if answer.status < 0 else f"exit status {answer.status}"
        return f"the test container failed ({how}): {said}" if said else f"the test container failed: {how}"

    async def _test_image(self) -> str:
        """The test image, made available.

        :raises HostError: when it cannot be.
        """
        path = self._rules.test_image_path
        if path and self._rules.test_image and Path(path).is_file():
            await self._client.output("load", "-i", path)
            return self._rules.test_image
        archive = test_image.archive()
        if archive is None:
            raise HostError("there is no test image for this processor: name one in DOCKER_TEST_IMAGE_PATH and _NAME")
        if (await self._client.call("image", "inspect", test_image.NAME)).status != 0:
            await self._client.output("import", "-", test_image.NAME, given=archive)
        return test_image.NAME

    # ---- images

    async def prepare(self, job: ContainerJob, progress: Progress) -> ContainerJob:
        """Have the image here, pulled once for all jobs of its user that wait for it."""
        image = images.normalized(job.choice.image)
        if not images.is_name(image):
            raise LaunchRefusedError(held(f"Cannot pull image {image}: invalid reference format", INVALID_DOCKER_IMAGE))
        _check_directory(job.context)
        value = lookup(job.context.job_ad)
        user = value("User")
        mark = images.marked(image, user if isinstance(user, str) and user else job.context.job.owner)
        policy = value("DockerPullPolicy")
        always = isinstance(policy, str) and policy.strip().lower() == "always"
        names = (image,) if self._rules.trusts_local_images else (image, mark)
        try:
            architecture = None if always else await self._known(names)
            if architecture is None:
                await self._pulls.get(mark, lambda say: self._pull(image, mark, say), progress)
                architecture = await self._architecture(image)
        except (HostError, OSError) as error:
            raise self._refused(image, str(error)) from None
        if wrong := self._wrong(architecture or ""):
            reason = f"Image Architecture {wrong} not compatible with this machine."
            raise LaunchRefusedError(held(reason, INVALID_DOCKER_IMAGE))
        self._later(self._used(image, mark))
        return replace(job, image=image)

    async def _known(self, names: tuple[str, ...]) -> str | None:
        """As :meth:`_architecture`; the daemon is not asked again for each of many jobs that start together."""
        now = self._monotonic()
        known, at = self._seen.get(names, (None, 0.0))
        if known is None or now - at > _SEEN_S:
            known = await self._architecture(*names)
            self._seen = {key: seen for key, seen in self._seen.items() if now - seen[1] <= _SEEN_S}
            if known is not None:
                self._seen[names] = known, now
        return known

    async def _architecture(self, *names: str) -> str | None:
        """The architecture of an image; None unless all of its names are here.

        :raises OSError: when the client cannot be started.
        """
        found = await self._client.call("image", "inspect", "--format", "{{.Architecture}}.", *names)
        lines = found.output.split()
        return lines[0].rstrip(".") if found.status == 0 and len(lines) == len(names) else None

    async def _pull(self, image: str, mark: str, progress: Progress) -> None:
        """:raises HostError: when it fails."""
        progress(f"pulling {image}")
        await self._make_room()
        known = await self._architecture(image) is not None
        limit_s = float(self._rules.pull_timeout_s) or 7 * 86400.0
        try:
            await self._client.output("pull", "--quiet", image, limit_s=limit_s)
        except HostError as error:
            if state.is_host_failure(str(error)) or "no answer in" in str(error):
                self._record.failed(image, str(error))
            raise
        self._record.succeeded()
        await self._client.output("tag", image, mark)
        if not known:
            await self._client.output("tag", image, images.pulled(image))

    def _refused(self, image: str, words: str) -> LaunchRefusedError:
        """A job whose image cannot be had is held with Docker's words; one that this host failed goes elsewhere."""
        reason = f"Cannot pull image {image} {words}"
        if state.is_host_failure(words) or "no answer in" in words:
            return LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=STARTER_ERROR))
        return LaunchRefusedError(held(reason, INVALID_DOCKER_IMAGE))

    def _wrong(self, architecture: str) -> str:
        """An image's architecture where this host runs another one; empty where it fits or is not known."""
        wanted = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "")
        return architecture if wanted and architecture != wanted and not self._rules.skips_arch_check else ""

    async def _make_room(self) -> None:
        """Remove the images that were not used for longest: the next one shall keep within DOCKER_IMAGE_CACHE_SIZE."""
        in_use = [images.normalized(name) for name in await self._lines("ps", "--all", "--format", "{{.Image}}")]
        self._seen = {}
        for names in images.to_remove(await self._images(), max(0, self._rules.cache_size - 1), in_use):
            answer = await self._client.call("rmi", *names)
            if answer.status != 0:
                _log.warning("could not remove image %s: %s", names[0], state.one_line(answer.errors))
            else:
                _log.info("removed image %s to stay within DOCKER_IMAGE_CACHE_SIZE", names[0])

    async def _images(self) -> list[images.Image]:
        """The images that jobs have pulled."""
        listed = await self._lines("images", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")
        ours = [line for line in listed if images.Image(line, "").ours]
        ids = list(dict.fromkeys(line.partition(" ")[2] for line in ours))
        if not ids:
            return []
        used = "{{.Created}}" if self._engine.podman else "{{.Metadata.LastTagTime}}"  # podman keeps no such time
        details = await self._client.output("image", "inspect", "--format", "{{.Id}} {{.Size}} " + used, *ids)
        return images.parse_listing(ours, images.parse_details(details))

    async def _lines(self, *arguments: str) -> list[str]:
        return [line for line in (await self._client.output(*arguments)).splitlines() if line.strip()]

    async def _used(self, image: str, mark: str) -> None:
        """Note that an image is used (tagging it does), and measure the images when it is time to."""
        if not self._rules.trusts_local_images:
            await self._client.output("tag", image, mark)
        interval, now = self._rules.cache_advertise_s, self._monotonic()
        if interval and (self._measured_at is None or now - self._measured_at >= interval):
            self._measured_at = now
            self._cached_mib = (images.cached_bytes(await self._images()) + (1 << 19)) >> 20

    def _later(self, work: Coroutine[object, object, None]) -> None:
        """Do what no job waits for."""
        task = asyncio.get_running_loop().create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- runs

    def compose(self, spec: KeeperSpec, job: ContainerJob) -> KeeperSpec:
        """The keeper runs a program that creates the container and becomes the client attached to it."""
        context = job.context
        engine = replace(self._engine, nests=self._engine.nests and context.root)
        identity = spec.identity
        account = (
            (identity.uid, identity.gid if identity.gid is not None else identity.uid)
            if identity.uid is not None
            else (os.getuid(), os.getgid())
        )
        create = create_arguments(
            spec,
            context,
            self._rules,
            engine,
            image=job.image,
            memory_mib=job.memory_mib,
            account=account,
            devices=self._devices,
            mounts=_ads(context),
        )
        interactive = ("--interactive",) if "--interactive" in create else ()
        words = launch.words(
            errors=str(context.directory.control / _ERRORS),
            name=container_name(context.job.job_id, spec.name),
            client=self._client.command(),
            start=("start", "--attach", *interactive),
            create=create,
        )
        program = (sys.executable, "-I", "-S", str(Path(launch.__file__)), *words)
        return attached(spec, program, self._client.env, engine)

    def inside(self, run: ContainerRun) -> Entrance | None:
        """``docker exec``."""
        name = container_name(run.job.job_id, run.name)
        env = [f"{key}={text}" for key, text in self._client.env.items()]
        words = ("/usr/bin/env", "-i", *env, *self._client.command(), "exec", "--interactive")
        return Entrance(words=(*words, name), terminal_words=(*words, "--tty", name))

    async def describe(self, run: ContainerRun, job_ad: ClassAd) -> Mapping[str, Value]:
        """The ports of the host that lead to the job's services: ``<service>_HostPort``."""
        services = service_ports(job_ad)
        name, deadline = container_name(run.job.job_id, run.name), self._monotonic() + _END_S
        while services and self._monotonic() < deadline:
            answer = await self._client.call("inspect", "--format", "{{json .NetworkSettings.Ports}}", name)
            if found := state.host_ports(answer.output, services):
                return found
            await asyncio.sleep(0.2)  # the container is on its way
        return {}

    async def conclude(self, run: ContainerRun, result: KeeperResult) -> KeeperResult:
        """Ask the daemon how the container ended, and remove it."""
        name = container_name(run.job.job_id, run.name)
        errors = run.directory.control / _ERRORS
        if result.how == "exited" and result.code == launch.NO_CONTAINER and errors.exists():
            said = state.one_line(errors.read_text(errors="replace"))
            errors.unlink()
            stage = "docker create" if state.is_host_failure(said) else IMAGE_FAILED
            return replace(result, how="failed", stage=stage, detail=said)
        try:
            result = state.corrected(result, await self._ended_state(name))
        except (HostError, OSError) as error:
            _log.error("run %s: could not find out how its container ended: %s", run.run_id, error)
            result = state.corrected(result, None)
        for problem in await self._remove([name]):
            _log.error("run %s: %s", run.run_id, problem)
        return result

    async def _ended_state(self, name: str) -> state.ContainerState | None:
        """The state of a container whose client has ended; the daemon may notice its end a moment later. None: there is
        no such container.

        :raises HostError: when the daemon does not say.
        :raises OSError: when it cannot be asked.
        """
        deadline = self._monotonic() + _END_S
        while True:
            answer = await self._client.call("inspect", "--format", "{{json .State}}", name)
            if answer.status != 0:
                if "no such" in answer.errors.lower():
                    return None
                raise HostError(state.one_line(answer.errors) or f"exit status {answer.status}")
            found = state.parse_state(answer.output)
            if found is None or not found.running:
                return found
            if self._monotonic() > deadline:
                raise HostError("the daemon says that it still runs")
            await self._client.call("kill", name)  # the client is gone, and nobody else waits for it
            await asyncio.sleep(0.05)

    async def _remove(self, names: Iterable[str]) -> list[str]:
        """Remove containers with their volumes; what could not be removed, in words."""
        problems = []
        for name in names:
            answer = await self._client.call("rm", "--force", "--volumes", name)
            if answer.status != 0 and "no such container" not in answer.errors.lower():
                problems.append(f"could not remove container {name}: {state.one_line(answer.errors)}")
        return problems

    async def sweep(self, live: Collection[str]) -> list[str]:
        """Remove the containers of runs of this EXECUTE that are gone, directory and all."""
        if self._client.path() is None:
            return []
        try:
            ids = await self._lines("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={RUN_LABEL}")
            if not ids:
                return []
            labels = await self._client.output("inspect", "--format", "{{.Id}} {{json .Config.Labels}}", *ids)
        except HostError as error:
            # A daemon that is not there has no containers; that it does not answer, the probe says.
            _log.debug("containers left over are not looked for: %s", error)
            return []
        return await self._remove(_lost(labels, self._execute, live))


async def _logged(work: Coroutine[object, object, None]) -> None:
    with contained(_log, "noting that a Docker image is used"):
        await work


def _lost(labels: str, execute: Path, live: Collection[str]) -> list[str]:
    """Ids of containers of runs below ``execute`` that are not live."""
    found = []
    for line in labels.splitlines():
        id_, _, text = line.partition(" ")
        known = json.loads(text)
        run = Path(str(known.get(RUN_LABEL, "")) if isinstance(known, dict) else "")
        # One that has a directory is being started, or ends now: its run removes the container.
        if run.parent == execute and run.name not in live and not run.exists():
            found.append(id_)
    return found


def _broken(known: Probe, reason: str) -> Probe:
    """Docker is here, and does not work."""
    attributes: dict[str, Value] = {
        "HasDocker": False,
        "HasDockerReason": reason,
        "DockerOfflineReason": reason,
    }
    if known.version:
        attributes["DockerVersion"] = known.version
    return Probe(works=False, version=known.version, reason=reason, attributes=attributes)


def _check_directory(context: JobContext) -> None:
    """Refuse a directory that a job works in where it lies, and that its user cannot reach: the daemon, which mounts
    it, can.

    :raises LaunchRefusedError: when it is refused.
    """
    place = context.job.iwd
    if context.transfers:
        return
    with rights_of(context.identity):
        number = 0 if os.access(f"{place}/.", os.X_OK, effective_ids=True) else errno.EACCES
    if number or ":" in place:
        reason = f"Cannot access initial working directory {place}: {os.strerror(number or errno.EINVAL)}"
        raise LaunchRefusedError(held(reason, IWD_ERROR, number or errno.EINVAL))


def _ads(context: JobContext) -> list[tuple[str, str]]:
    """The directory with the files about the job that its environment names, where it is beside the job's own."""
    directory = context.directory
    return [(str(directory.ours), str(directory.ours))] if directory.nested else []


def _engine(info: state.EngineInfo, mounts: str) -> Engine:
    """How the daemon's containers are put below a job's cgroup; ``mounts`` is ``/proc/self/mounts``."""
    hierarchies: dict[str, str] = {}
    for line in mounts.splitlines():
        words = line.split()
        if len(words) > 3 and words[2] in ("cgroup", "cgroup2"):
            key = "2" if words[2] == "cgroup2" else words[3]
            hierarchies.setdefault(key, words[1])
    version = "2" if list(hierarchies) == ["2"] else "1"
    places = tuple(hierarchies.values())
    fits = info.cgroup_version == version and not info.rootless
    return Engine(
        nests=fits and info.cgroup_driver == "cgroupfs",
        mounts=places,
        slices=places[0] if fits and version == "2" and info.cgroup_driver == "systemd" else "",
        podman=info.podman,
    )
