"""Runs jobs in containers of Docker's daemon, or of podman."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.daemon.containment import contained
from slotwise.errors import HostError
from slotwise.execution.child_programs import call
from slotwise.execution.exit_status import IMAGE_FAILED, INVALID_DOCKER_IMAGE, IWD_ERROR, STARTER_ERROR, End, How, held
from slotwise.execution.keeper_spec import KeeperResult, KeeperSpec
from slotwise.starter.enforcement import gpu_hiding
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.context import JobContext
from slotwise.starter.runtimes.docker import images, launch, state, test_image
from slotwise.starter.runtimes.docker.client import PATH, Client
from slotwise.starter.runtimes.docker.container import (
    NAMES,
    RUN_LABEL,
    SLICE,
    Devices,
    Engine,
    attached,
    container_name,
    create_arguments,
    is_slice_of,
    service_ports,
    users_directory,
)
from slotwise.starter.runtimes.docker.create_body import create_body
from slotwise.starter.runtimes.docker.daemon import ByProgram, BySocket, Daemon, socket_of
from slotwise.starter.runtimes.docker.rules import DockerRules
from slotwise.starter.runtimes.images import CacheSettings, PullRecord, SharedWork, is_host_failure
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
#: How long podman may take to, once the container's process is gone: its own beside it may have been killed with it.
_PODMAN_END_S = 2.0


class Docker:
    """The driver. All methods are for the event loop's thread.

    :param execute: the EXECUTE whose containers it removes.
    :param control: the starter's control directory, by which its programs are found when it has been killed.
    :param record: whether pulls keep failing here.
    """

    name = "docker"

    def __init__(
        self,
        rules: DockerRules,
        execute: Path,
        control: Path,
        record: PullRecord | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = rules
        self._execute = execute
        self._control = control
        self._client = Client(rules.program, control)
        self._daemon: Daemon = ByProgram(self._client)
        self._monotonic = monotonic
        self._engine = Engine()
        self._found = Probe(works=False)
        self._probing = asyncio.Lock()
        self._pulls: SharedWork[None] = SharedWork()
        self._record = record or PullRecord(CacheSettings())
        self._devices = Devices()
        #: Architectures of images that were here, and when.
        self._seen: dict[tuple[str, ...], tuple[str, float]] = {}
        self._cached_mib: int | None = None
        self._measured_at: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._tests = itertools.count(1)

    # ---- what it offers

    @property
    def offer(self) -> Probe:
        """What it can do now."""
        found = self._found
        if found.works and self._record.problem:
            return _broken(found, f"pulls of images keep failing: {self._record.problem}")
        found = self._record.withdrawn(found)
        if found.works and self._cached_mib is not None:
            return replace(found, attributes={**found.attributes, "DockerCachedImageSizeMb": self._cached_mib})
        return found

    async def probe(self) -> None:
        """Run the test container."""
        async with self._probing:
            try:
                self._found = await self._probed()
            except HostError as error:
                self._found = _broken(self._found, str(error))

    def _doubt(self) -> None:
        """The daemon has failed a job, or did not work before: find out whether it does now; once for all that ask."""
        if not self._probing.locked():
            self._later(self.probe())

    async def _probed(self) -> Probe:
        if self._client.path() is None:
            if not self._rules.program or not self._rules.is_named:
                return Probe(works=False)
            return _broken(Probe(works=False), f"DOCKER names {self._rules.program[0]}, where there is no program")
        if missing := self._client.daemon_missing():
            return _broken(Probe(works=False), missing)
        version = (await self._client.output("-v", limit_s=_PROBE_S)).strip()
        known = Probe(works=True, version=version)
        if wrong := state.client_problem(version):
            return _broken(known, wrong)
        if self._rules.hides_scratch and os.geteuid() == 0:
            why = "the daemon cannot see scratch volumes, which LVM_HIDE_MOUNT hides: set LVM_HIDE_MOUNT = false"
            return _broken(known, why)
        info = state.parse_info(await self._client.output("info", "--format", "{{json .}}", limit_s=_PROBE_S))
        if info is None or not info.server:
            why = state.one_line("; ".join(info.errors)) if info is not None else ""
            return _broken(known, why or "its daemon does not answer")
        daemon, engine = await self._approach(version, engine_of(info, Path("/proc/self/mounts").read_text()))
        devices = Devices({uuid: f"/dev/nvidia{minor}" for uuid, (_major, minor) in gpu_hiding.find_gpus().items()})
        gaps = list(self._rules.misread)
        if self._rules.perform_test:
            engine, failure = await self._try_ways(engine, gaps)
            if failure:
                return _broken(known, failure)
        # All at once, and not before it is tried: jobs start and end meanwhile.
        self._daemon, self._engine, self._devices = daemon, engine, devices
        if os.geteuid() != 0 or not (engine.nests or engine.slices):
            driver = f"its cgroup driver is {info.cgroup_driver or 'none'}"
            why = driver if os.geteuid() == 0 else "the daemons are not root"
            gaps.append(
                f"Docker jobs are limited by Docker alone; their use is not measured, and they are not suspended: {why}"
            )
        return replace(known, attributes=self._attributes(version), gaps=tuple(gaps))

    async def _approach(self, version: str, found: Engine) -> tuple[Daemon, Engine]:
        """How the daemon is asked: by its socket, where that is the same as by its program; and what it is: it may be
        podman that answers."""
        daemon: Daemon = ByProgram(self._client)
        if found.podman or not version.startswith("Docker version"):
            return daemon, found
        socket = socket_of(self._client)
        by_socket = BySocket(socket)
        engine = await by_socket.engine() if socket else ""
        if engine:
            daemon = by_socket
        else:
            answer = await self._client.call("version", "--format", "{{json .Server.Components}}", limit_s=_PROBE_S)
            engine = answer.output
        podman = "podman" in engine.lower()
        return daemon, replace(found, podman=podman, mounts_open=not podman)

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

    async def _try_ways(self, engine: Engine, gaps: list[str]) -> tuple[Engine, str]:
        """Run test containers as jobs run, and find out what of it does not work here; why none does, in words."""
        inits = (True, False) if self._rules.under_init else (False,)
        failures: list[str] = []
        with open_directory(self._execute) as place:
            for shown, init in itertools.product((place, "") if engine.mounts_open else ("",), inits):
                failure = await self._tested(init=init, place=shown)
                if not failure:
                    break
                failures.append(failure)
            else:
                return engine, failures[-1]
        if self._rules.under_init and not init:
            gaps.append(f"DOCKER_RUN_UNDER_INIT has no effect: {failures[-1]}")
        # Podman's service takes such a volume, and shows an empty one: its containers are looked into.
        if not shown and not engine.podman:
            gaps.append(
                "a job without file transfer could put a link in the place of its directory while its container is "
                f"made: {failures[len(inits) - 1]}"
            )
        return replace(engine, under_init=init, mounts_open=bool(shown)), ""

    async def _tested(self, *, init: bool, place: str = "") -> str:
        """Run the test container; why it fails, in words, empty when it works.

        :param place: a directory that it gets.
        """
        image = await self._test_image()
        # Not --rm: of a container that podman removes by itself, Docker's program learns no status.
        name = f"{_own_tests()}{next(self._tests)}"
        words = ["run", "--name", name, "--label", f"{RUN_LABEL}={self._execute / name}"]
        words += ["--network=none", *(["--init"] if init else [])]
        words += launch.volume(place, "/place") if place else []
        words += [image, test_image.PROGRAM]
        try:
            answer = await self._client.call(*words, limit_s=_TEST_S)
        except OSError as error:
            return f"{self._client.words[0]}: {error.strerror or error}"
        if problems := await self._remove([name]):
            _log.error("%s", problems[0])
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
        known = [await self._daemon.architecture(name) for name in names]
        return None if None in known else known[0]

    async def _pull(self, image: str, mark: str, progress: Progress) -> None:
        """:raises HostError: when it fails."""
        progress(f"pulling {image}")
        await self._make_room()
        known = await self._architecture(image) is not None
        limit_s = float(self._rules.pull_timeout_s) or 7 * 86400.0
        try:
            await self._client.output("pull", "--quiet", image, limit_s=limit_s)
        except HostError as error:
            self._record.failed(image, str(error))
            raise
        self._record.succeeded(image)
        await self._daemon.tag(image, mark)
        if not known:
            await self._daemon.tag(image, images.pulled(image))

    def _refused(self, image: str, words: str) -> LaunchRefusedError:
        """A job whose image cannot be had is held with Docker's words; one that this host failed goes elsewhere, unless
        SLOTWISE_IMAGE_PULL_FAILURE_ACTION says otherwise."""
        reason = f"Cannot pull image {image} {words}"
        if self._record.sends_away(words):
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
            await self._daemon.tag(image, mark)
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
        directory = users_directory(spec, context, engine, account)
        socket = self._daemon.socket if isinstance(self._daemon, BySocket) else ""
        environment = [f"{name}={value}" for name, value in spec.env.items()]
        body = create_body(create, directory if engine.mounts_open else None, environment) if socket else ""
        told = launch.words(
            errors=str(context.directory.control / _ERRORS),
            name=container_name(context.job.job_id, spec.name),
            client=self._client.command(),
            start=("start", "--attach", *interactive),
            create=create,
            directory=directory,
            by_name=not engine.mounts_open,
            environment=environment,
            socket=socket if body else "",
            body=body,
        )
        return attached(spec, tuple(launch.program()), {**self._client.env, **told}, engine)

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
            if found := state.host_ports(await self._daemon.ports(name), services):
                return found
            await asyncio.sleep(0.2)  # the container is on its way
        return {}

    async def usage(self, run: ContainerRun) -> Mapping[str, Value]:
        """What went over the container's own networks: NetworkInputMb and NetworkOutputMb."""
        traffic = await self._daemon.traffic(container_name(run.job.job_id, run.name))
        return {} if traffic is None else state.network_attributes(traffic)

    async def conclude(self, run: ContainerRun, result: KeeperResult) -> KeeperResult:
        """Ask the daemon how the container ended, unless that is known, and remove it."""
        name = container_name(run.job.job_id, run.name)
        errors = run.directory.control / _ERRORS
        if result.how == "exited" and result.code == launch.NO_CONTAINER and errors.exists():
            said = state.one_line(errors.read_text(errors="replace"))
            errors.unlink()
            stage = IMAGE_FAILED
            if is_host_failure(said):
                stage = "docker create"
                self._doubt()
            return replace(result, how="failed", stage=stage, detail=said)
        if errors.exists():
            _log.error("run %s: %s", run.run_id, state.one_line(errors.read_text(errors="replace")))
        by_itself = result.how == "exited" and result.ended_by == "itself"
        # The client has no status 0 of its own, and kills for memory are counted in the job's group, if it has one.
        if not (by_itself and result.code == 0 and (self._engine.nests or self._engine.slices)):
            try:
                result = state.corrected(result, await self._ended_state(name))
            except (HostError, OSError) as error:
                _log.error("run %s: could not find out how its container ended: %s", run.run_id, error)
                result = state.corrected(result, None, str(error))
                if isinstance(error, OSError) or is_host_failure(str(error)):
                    self._doubt()
        for problem in await self._remove([name]):
            _log.error("run %s: %s", run.run_id, problem)
        self._later(self._stop_slices(lambda slice_: is_slice_of(slice_, str(self._execute), run.name)))
        return result

    async def _stop_slices(self, is_meant: Callable[[str], bool]) -> None:
        """Have systemd forget slices in which nothing is any more: it keeps them otherwise."""
        if not self._engine.slices:
            return
        found = [place for place in Path(self._engine.slices, SLICE).glob("*.slice") if is_meant(place.name)]
        if units := [place.name for place in found if _is_empty(place)]:
            words = ["systemctl", "stop", "--no-block", *units]
            await call(words, self._control, cwd="/", env={"PATH": PATH}, limit_s=_PROBE_S)

    async def _ended_state(self, name: str) -> state.ContainerState | None:
        """The state of a container whose client has ended; the daemon may notice its end a moment later. None: there is
        no such container.

        :raises HostError: when the daemon does not say.
        :raises OSError: when it cannot be asked.
        """
        began = self._monotonic()
        deadline = began + _END_S
        while True:
            found = await self._daemon.state(name)
            if found is None or not found.running:
                return found
            if (
                self._engine.podman
                and self._monotonic() > began + _PODMAN_END_S
                and not Path(f"/proc/{found.pid}").exists()
            ):
                return None  # nobody is left who would tell podman
            if self._monotonic() > deadline:
                raise HostError("the daemon says that it still runs")
            await self._daemon.kill(name)  # the client is gone, and nobody else waits for it
            await asyncio.sleep(0.05)

    async def _remove(self, names: Iterable[str]) -> list[str]:
        """Remove containers with their volumes; what could not be removed, in words."""
        problems = []
        for name in names:
            if why := await self._daemon.remove(name):
                problems.append(f"could not remove container {name}: {why}")
        return problems

    async def sweep(self, live: Collection[str]) -> list[str]:
        """Remove the containers of runs of this EXECUTE that are gone, directory and all; see whether a daemon that did
        not work does now."""
        if self._client.path() is None:
            return []
        if self._found.reason:
            self._doubt()
        with contextlib.suppress(OSError):
            execute = str(self._execute)
            await self._stop_slices(
                lambda name: is_slice_of(name, execute, "") and not any(is_slice_of(name, execute, run) for run in live)
            )
        try:
            ids = await self._lines("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={RUN_LABEL}")
            if not ids:
                return []
            labels = await self._client.output("inspect", "--format", "{{.Id}} {{.Name}} {{json .Config.Labels}}", *ids)
        except HostError as error:
            # A daemon that is not there has no containers; that it does not answer, the probe says.
            _log.debug("containers left over are not looked for: %s", error)
            return []
        return await self._remove(_lost(labels, self._execute, live))


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[str]:
    """A path to a directory by this process's own descriptor of it, as jobs' directories are shown to the daemon."""
    place = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/{os.getpid()}/fd/{place}"
    finally:
        os.close(place)


async def _logged(work: Coroutine[object, object, None]) -> None:
    with contained(_log, "tidying up behind a Docker job"):
        await work


def _own_tests() -> str:
    """What the names of this process's test containers begin with."""
    return f"{NAMES}_test_{os.getpid()}_"


def _lost(labels: str, execute: Path, live: Collection[str]) -> list[str]:
    """Ids of containers of runs below ``execute`` that are not live."""
    found = []
    for line in labels.splitlines():
        id_, name, text = (*line.split(" ", 2), "", "")[:3]
        known = state.json_object(text) or {}
        name = name.removeprefix("/")
        if not name.startswith(NAMES) or name.startswith(_own_tests()):
            continue  # somebody else's container, which has the label from its image; or a test that runs now
        run = Path(str(known.get(RUN_LABEL, "")))
        # One that has a directory is being started, or ends now: its run removes the container.
        if run.parent == execute and run.name not in live and not run.exists():
            found.append(id_)
    return found


def _is_empty(group: Path) -> bool:
    with contextlib.suppress(OSError):
        return "populated 0" in (group / "cgroup.events").read_text()
    return False


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
    """The directories with the files about the job that its environment names, where they are beside the job's own."""
    directory = context.directory
    places = [directory.ours] if directory.nested else []
    places += [directory.credentials] if context.job.needs_credentials else []
    return [(str(place), str(place)) for place in places]


def engine_of(info: state.EngineInfo, mounts: str) -> Engine:
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
        mounts_open=not info.podman,
        podman=info.podman,
    )
