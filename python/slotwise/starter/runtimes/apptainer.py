"""Jobs in Apptainer or Singularity containers (manual, "Apptainer and Singularity Support").

Apptainer's own process is the job's as the keeper sees it: it runs as the job's user, in the job's cgroup, and the
container ends with it. Nothing of it outlives its processes but what lies in the job's directory and in the cache of
images.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import Value
from slotwise.config import Config
from slotwise.errors import UsageError
from slotwise.execution.arguments import in_double_quotes, split_new, split_old
from slotwise.execution.child_programs import Answer, as_user, call, call_with_jobs_environment
from slotwise.execution.exit_status import FAILED_TO_CREATE_PROCESS, STARTER_ERROR, End, How, held
from slotwise.execution.keeper_spec import Identity, Isolation, KeeperResult, KeeperSpec
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.ads import evaluate, lookup
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.choice import APPTAINER
from slotwise.starter.runtimes.images import STARTER, ImageCache, PullFailedError
from slotwise.starter.runtimes.runtime import ContainerJob, ContainerRun, Entrance, Probe, Progress

_log = logging.getLogger(__name__)

#: HoldReasonCode and HoldReasonSubCode of an image that fails its test.
TEST_FAILED, TEST_FAILED_SUBCODE = 45, -1000
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMES = ("apptainer", "singularity")
#: Variables that would change the container itself; a job may set these of them: they are about its own image.
_OF_CONTAINER = ("APPTAINER_", "SINGULARITY_")
_ALLOWED = frozenset(f"{start}DOCKER_{what}" for start in _OF_CONTAINER for what in ("USERNAME", "PASSWORD"))
#: What of the starter's own environment pulls have.
_FOR_PULLS = (*_OF_CONTAINER, "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_")
#: Where images are pulled from for all jobs of an account: registries and web servers. What else there is
#: (docker-archive, docker-daemon, oci) is of this host, and Apptainer reads it for each job.
_REGISTRIES = ("docker://", "oras://", "library://", "shub://", "http://", "https://")
_OPENCL = "/etc/OpenCL/vendors"
#: Where a job whose files do not move sees its scratch directory when the container has a target directory.
_SCRATCH_INSIDE = "/condor_scratch"
#: How the trial container ends: a status that nothing else has.
_TRIAL_STATUS = 37
_TRIAL = f"readlink /proc/self/ns/user; exit {_TRIAL_STATUS}"
#: Directories of the host that the trial container has instead of an image's own.
_OF_HOST = ("/usr", "/bin", "/lib", "/lib64")
#: How long the test of an image may take, seconds: it may be fetched for it.
_TEST_S = 1200.0
#: What `test` runs in an image.
_TEST_ACTION = ".singularity.d/actions/test"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NOBODY = 65534
#: What of an unpacked image shows that it has been made anew.
_PARTS = ("", ".singularity.d", _TEST_ACTION, "bin", "bin/sh", "usr/bin", "etc")
#: How long a test that an unpacked image has passed counts, seconds: what has changed deep below is not seen.
_DIRECTORY_S = 300.0
#: The mark that a job leaves in its container before its program runs, where SINGULARITY_USE_LAUNCHER is true.
_MARK = ".condor_container_launched"
_LAUNCHER = ("/bin/sh", "-c", f': > "$_CONDOR_SCRATCH_DIR/{_MARK}"; exec "$@"', "sh")
#: So many passed tests are remembered.
_MOST_PASSED = 1000
#: Processes of Apptainer's in a container, by name.
_HELPERS = frozenset(
    ("appinit", "sinit", "starter", "squashfuse", "squashfuse_ll", "fuse-overlayfs", "fuse2fs", "gocryptfs")
)


class ApptainerSettings(Struct, frozen=True):
    """The knobs SINGULARITY and SINGULARITY_*."""

    #: Path of the program; empty: not installed.
    program: str = ""
    #: The path that SINGULARITY names and where there is no program.
    missing: str = ""
    verbosity: str = "-s"
    #: SINGULARITY_BIND_EXPR; without it the job's SingularityBind counts.
    bind: ExprTree | None = None
    target_dir: str = ""
    #: SINGULARITY_EXTRA_ARGUMENTS: an expression that gives text, or the text itself.
    extra: str = ""
    tests_image: bool = True
    #: SINGULARITY_USE_LAUNCHER: the job leaves a mark once its container runs.
    marks_start: bool = False
    ignores_missing_target: bool = False
    #: SINGULARITY_USE_PID_NAMESPACES; None: where the trial container could have them.
    pid_namespaces: bool | None = None
    rocm: bool = False
    allowed_variables: frozenset[str] = frozenset()
    trial_s: float = 120.0


def read_apptainer(config: Config) -> ApptainerSettings:
    """Read the knobs."""
    named = config.get_str("SINGULARITY").strip()
    program = find_program(named)
    pids = config.get_text("SINGULARITY_USE_PID_NAMESPACES").strip().lower()
    return ApptainerSettings(
        program=program,
        missing=named if named.startswith("/") and not program and config.is_set("SINGULARITY") else "",
        verbosity=config.get_text("SINGULARITY_VERBOSITY").strip(),
        bind=_bind(config),
        target_dir=config.get_str("SINGULARITY_TARGET_DIR").strip(),
        extra=config.get_str("SINGULARITY_EXTRA_ARGUMENTS").strip(),
        tests_image=config.get_bool("SINGULARITY_RUN_TEST_BEFORE_JOB"),
        marks_start=config.get_bool("SINGULARITY_USE_LAUNCHER"),
        ignores_missing_target=config.get_bool("SINGULARITY_IGNORE_MISSING_BIND_TARGET"),
        pid_namespaces={"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(pids),
        rocm=config.get_bool("SINGULARITY_ADD_ROCM_FLAG"),
        allowed_variables=frozenset(config.get_list("SINGULARITY_ALLOWED_JOB_ENV_VARS")),
        trial_s=config.get_float("SINGULARITY_TEST_SANDBOX_TIMEOUT"),
    )


def _bind(config: Config) -> ExprTree | None:
    with contextlib.suppress(ValueError):
        text = config.get_text("SINGULARITY_BIND_EXPR").strip()
        return ExprTree(text, old=True) if text else None
    return None


def find_program(named: str) -> str:
    """The program that SINGULARITY names; by a bare name, or where that is not there, what the host has installed."""
    if named.startswith("/") and os.access(named, os.X_OK):
        return named
    names = (named, *_NAMES) if named and not named.startswith("/") else _NAMES
    if named.startswith("/") and not named.endswith(tuple(f"/libexec/{name}" for name in _NAMES)):
        return ""  # the administrator named one that is not there
    return next((found for name in names if (found := shutil.which(name, path=_PATH))), "")


class Apptainer:
    """The driver.

    :param place: a directory of the starter's that jobs' users can enter, for the trial container.
    :param control: the starter's control directory, by which its programs are found when it has been killed.
    """

    name = APPTAINER

    def __init__(
        self,
        settings: ApptainerSettings,
        images: ImageCache,
        place: Path,
        control: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._images = images
        self._place = place
        self._control = control
        self._offer = Probe(works=False)
        self._is_apptainer = True
        #: Tests of images that were passed, and when.
        self._passed: dict[tuple[object, ...], float] = {}
        #: Held while an image is tested.
        self._testing: WeakValueDictionary[tuple[object, ...], asyncio.Lock] = WeakValueDictionary()
        self._pid_namespaces = settings.pid_namespaces is not False
        #: Image files are unpacked for each job: its account can mount none.
        self._unpacks_files = False

    @property
    def offer(self) -> Probe:
        """What works here; pulls are not offered while they keep failing."""
        problem = self._images.record.problem
        if not problem or not self._offer.works:
            return self._images.record.withdrawn(self._offer)
        withdrawn: dict[str, Value] = {"HasDockerURL": False, "ContainerPullsOfflineReason": problem}
        gap = f"images are not pulled: {problem}"
        return replace(self._offer, attributes={**self._offer.attributes, **withdrawn}, gaps=(*self._offer.gaps, gap))

    # ---- the trial

    async def probe(self) -> None:
        """Run a container of an empty directory, and one of an image file."""
        if not self._settings.program:
            self._offer = Probe(works=False)
            if missing := self._settings.missing:
                self._offer = self._broken(f"SINGULARITY names {missing}, where there is no program")
            return
        try:
            said = await self._run(["--version"], os.geteuid())
        except OSError as error:
            self._offer = self._broken(f"{self._settings.program}: {error.strerror}")
            return
        version = said.output.strip().partition("\n")[0]
        if said.status != 0 or not version:
            self._offer = self._broken(f"{self._settings.program} --version: {_first_line(said)}")
            return
        self._is_apptainer = "apptainer" in version
        try:
            self._offer = await self._trial(version)
        except OSError as error:
            self._offer = self._broken(f"{self._settings.program}: {error.strerror}", version)

    async def _trial(self, version: str) -> Probe:
        try:
            sandbox = self._sandbox()
        except OSError as error:
            return self._broken(f"no trial container can be made: {error}", version)
        found: Answer | None = None
        wanted = self._settings.pid_namespaces
        for pids in (True, False) if wanted is None else (wanted,):
            self._pid_namespaces = pids
            found = await self._enter(sandbox)
            if found.status == _TRIAL_STATUS:
                break
        assert found is not None
        by_sandbox = found.status == _TRIAL_STATUS
        by_file = await self._tries_file(sandbox)
        if not by_sandbox and not by_file:
            return self._broken(f"Both SIF and Sandbox tests on startup failed : {_last_line(found)}", version)
        attributes: dict[str, Value] = {
            "HasSingularity": True,
            "HasContainer": True,
            # A download, which makes an image file, cannot be tried; one that fails is held against the image.
            "HasDockerURL": by_file,
            "HasPidNamespaces": self._pid_namespaces,
            "SingularityVersion": version,
        }
        attributes |= {"HasSandboxImage": True} if by_sandbox else {}
        attributes |= {"HasSIF": True} if by_file else {}
        if by_sandbox and (namespace := found.output.strip()):
            attributes["SingularityUserNamespaces"] = namespace != str(Path("/proc/self/ns/user").readlink())
        gaps = () if self._pid_namespaces else ("jobs in Apptainer see the processes of the host",)
        return Probe(works=True, version=version, attributes=attributes, gaps=gaps)

    @staticmethod
    def _broken(reason: str, version: str = "") -> Probe:
        attributes: dict[str, Value] = {"HasSingularity": False, "SingularityOfflineReason": reason}
        if version:
            attributes["SingularityVersion"] = version
        return Probe(works=False, version=version, reason=reason, attributes=attributes)

    def _sandbox(self) -> Path:
        """The directory that the trial container is made of: the host's own programs are bound into it."""
        top = self._place / "trial"
        for name in ("proc", "sys", "dev", "etc", "tmp", "root", "home", *(path[1:] for path in _OF_HOST)):
            (top / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        return top

    async def _tries_file(self, sandbox: Path) -> bool:
        """Whether a container of an image file runs; the file is made once. Where ``/dev/fuse`` is closed to jobs'
        users it runs only from what Apptainer unpacks of the file."""
        self._unpacks_files = False
        image = self._place / "trial.sif"
        if not image.exists():
            made = self._place / f"trial.{os.getpid()}.sif"
            said = await self._run(["build", "-F", str(made), str(sandbox)], os.geteuid())
            if said.status != 0 or not made.is_file():
                why = _last_line(said) if said.status != 0 else f"{self._settings.program} build has made no file"
                _log.info("no image file can be made for a trial: %s", why)
                if not made.is_dir():
                    made.unlink(missing_ok=True)
                return False
            made.chmod(0o644)
            made.replace(image)
        mounted = await self._enter(image)
        if mounted.status == _TRIAL_STATUS or not self._is_apptainer:
            return mounted.status == _TRIAL_STATUS
        self._unpacks_files = (await self._enter(image, "--unsquash")).status == _TRIAL_STATUS
        if self._unpacks_files:
            _log.info("image files are unpacked for each job, as they cannot be mounted: %s", _last_line(mounted))
        return self._unpacks_files

    async def _enter(self, image: Path, *options: str) -> Answer:
        binds = [word for path in _OF_HOST if Path(path).is_dir() for word in ("-B", path)]
        words = ["exec", *options, *self._containment(), *binds, str(image), "/bin/sh", "-c", _TRIAL]
        return await self._run(words, _NOBODY)

    async def _run(self, words: list[str], uid: int) -> Answer:
        """Run Apptainer; as ``uid`` where we may choose: what it can do as root says nothing about jobs."""
        identity = Identity(uid=uid, gid=uid) if os.geteuid() == 0 and uid != 0 else Identity()
        words = [*as_user(identity), self._settings.program, *words]
        env = {"PATH": _PATH, "HOME": "/"}
        return await call(words, self._control, cwd="/", env=env, limit_s=self._settings.trial_s)

    def _containment(self) -> list[str]:
        return ["-C"] if self._pid_namespaces else ["--contain", "--ipc", "--cleanenv"]

    # ---- a job

    async def prepare(self, job: ContainerJob, progress: Progress) -> ContainerJob:
        """Find the image, and test it as the job will have it."""
        job = replace(job, image=image_of(job))
        if job.image.startswith(_REGISTRIES) and not self._own_login(job):
            job = replace(job, image=await self._pulled(job, progress))
        self._make_mount_points(job)
        if self._settings.tests_image and job.spec is not None:
            await self._test(job, job.spec)
        return job

    async def _test(self, job: ContainerJob, spec: KeeperSpec) -> None:
        """Have Apptainer test the image as the job's user, unless this image has passed the same test before (an
        unpacked one: not long ago). Of jobs that come together with one image the first tests it, and the others only
        if it fails.

        :raises LaunchRefusedError: when it fails.
        """
        passed = self._test_key(job, spec)
        if not passed:
            await self._run_test(job, spec)
            return
        async with self._testing.setdefault(passed, asyncio.Lock()):
            now = self._monotonic()
            if passed not in self._passed or (Path(job.image).is_dir() and now - self._passed[passed] > _DIRECTORY_S):
                await self._run_test(job, spec)
                if len(self._passed) >= _MOST_PASSED:
                    self._passed.clear()
                self._passed[passed] = now

    async def _run_test(self, job: ContainerJob, spec: KeeperSpec) -> None:
        """:raises LaunchRefusedError: when it fails."""
        env, _ = self._environment(spec, job)
        image = Path(job.image)
        if image.is_dir() and not (image / _TEST_ACTION).exists():  # unpacked by something else: it has no tests
            words = [*self._options(spec, job, "-q", "exec"), job.image, "/bin/sh", "-c", ":"]
        else:
            words = [*self._options(spec, job, "-q", "test"), job.image]
        directory = job.context.directory
        said = await call_with_jobs_environment(
            job.context.identity,
            [self._settings.program, *words],
            directory.control,
            cwd=str(directory.scratch),
            env={"PATH": _PATH, **env},
            limit_s=_TEST_S,
        )
        if said.status != 0:
            reason = f"Singularity test failed:{_first_line(said)}"
            # What lies on this host may be there on another; what the job brings is the same everywhere.
            subcode = 0 if job.image.startswith(f"{directory.scratch}/") else TEST_FAILED_SUBCODE
            raise LaunchRefusedError(held(reason, TEST_FAILED, subcode))

    def _test_key(self, job: ContainerJob, spec: KeeperSpec) -> tuple[object, ...]:
        """What the result of a test hangs on; empty for an image that can change unseen: the job's own, an address."""
        if job.image.startswith(f"{job.context.directory.path}/"):
            return ()
        seen: list[object] = []
        for part in _PARTS:
            try:
                status = Path(job.image, part).stat()
            except OSError:
                if not part:
                    return ()
                seen.append(part)  # it is not there
                continue
            seen += (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            if not part and not stat.S_ISDIR(status.st_mode):
                break  # the cache notes a use in such a file, which changes its status
            seen.append(status.st_ctime_ns)
        options = " ".join(self._options(spec, job)).replace(str(job.context.directory.path), "")
        identity = job.context.identity
        return (*seen, identity.uid, identity.gid, identity.groups, options)

    @staticmethod
    def _own_login(job: ContainerJob) -> bool:
        """The job logs in to its registry: its image is for it alone, and Apptainer fetches it into its directory."""
        return job.spec is not None and any(name in job.spec.env for name in _ALLOWED)

    async def _pulled(self, job: ContainerJob, progress: Progress) -> str:
        """The image in the cache, pulled by the job's account: its name, and what its registry sends, is the user's
        choice. Where the site has given the starter a login for pulls, which no user is to have, the starter pulls.

        :raises LaunchRefusedError: when it cannot be pulled: the job is held for the image's sake, and goes elsewhere
            for this host's, unless SLOTWISE_IMAGE_PULL_FAILURE_ACTION says otherwise.
        """

        identity = STARTER if any(os.environ.get(name) for name in _ALLOWED) else job.context.identity

        async def pull(file: Path, say: Progress) -> None:
            top = str(file.parent)
            env = {name: value for name, value in os.environ.items() if name.startswith(_FOR_PULLS)}
            env |= {"PATH": _PATH, "HOME": top, "TMPDIR": top}
            env |= {f"{own}{what}": top for own in _OF_CONTAINER for what in ("CACHEDIR", "TMPDIR")}
            words = [*as_user(identity), self._settings.program, "-s", "pull", "--disable-cache", str(file), job.image]
            said = await call(words, self._control, cwd=top, env=env, limit_s=_TEST_S)
            if said.status != 0:
                raise PullFailedError(f"cannot pull {job.image}: {_last_line(said)}")

        try:
            return str(await self._images.get(job.image, pull, progress, identity))
        except PullFailedError as error:
            reason = f"Singularity test failed:{error}"
            if self._images.record.sends_away(str(error)):
                raise LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=STARTER_ERROR)) from None
            raise LaunchRefusedError(held(reason, TEST_FAILED, 0)) from None

    def _make_mount_points(self, job: ContainerJob) -> None:
        """Where the run's directory lies below one that is private in the container, make the place for it there:
        Apptainer makes none below a directory that it has mounted.

        :raises OSError: when the file system refuses.
        """
        context = job.context
        scratch = context.directory.scratch
        shown = [str(context.directory.path), *([] if context.transfers else [context.job.iwd])]
        private = {"/tmp": "tmp", "/var/tmp": "var_tmp"}
        private |= {path: f"scratch/{path.strip('/')}" for path in self._private(job)}
        with rights_of(context.identity):
            for top, place in private.items():
                for path in shown:
                    if path.startswith(f"{top.rstrip('/')}/"):
                        (scratch / place / path[len(top.rstrip("/")) + 1 :]).mkdir(parents=True, exist_ok=True)

    @staticmethod
    def _private(job: ContainerJob) -> list[str]:
        """The directories that a container has empty copies of."""
        return [*job.scratch_mounts, *_words(job.context.job_ad, "MountUnderScratch")]

    def compose(self, spec: KeeperSpec, job: ContainerJob) -> KeeperSpec:
        """Apptainer as the program, the job as its arguments."""
        env, moved = self._environment(spec, job)
        program = [_inside(spec.exe, moved)] if spec.exe else []
        launcher = _LAUNCHER if program and self._settings.marks_start else ()
        words = [*self._options(spec, job, "exec" if program else "run"), job.image]
        words += [*launcher, *program, *spec.args[1:]]
        _log.info("%s: about to exec %s %s", job.context.job.job_id, self._settings.program, " ".join(words))
        # Apptainer makes the private directories itself, in the container.
        isolation: Isolation = replace(spec.isolation, mounts=())
        return replace(
            spec,
            exe=self._settings.program,
            args=(self._settings.program, *words),
            env=env,
            isolation=isolation,
        )

    def _options(self, spec: KeeperSpec, job: ContainerJob, *action: str) -> list[str]:
        """The words between the program and the image; see HTCondor's ``Singularity::setup``."""
        settings, context = self._settings, job.context
        directory = context.directory
        scratch, slot_dir = str(directory.scratch), str(directory.path)
        words = [settings.verbosity] if settings.verbosity else []
        words += action
        for path in self._private(job):
            words += ["-S", path]
        words += ["-W", scratch]
        target = self._target(context.job_ad)
        if context.transfers:
            bound = [f"{slot_dir}:{target}"] if target else [slot_dir]
            cwd = f"{target}/{directory.scratch.name}" if target else scratch
        else:
            iwd = context.job.iwd
            bound = [iwd, f"{iwd}:{target}", f"{slot_dir}:{_SCRATCH_INSIDE}"] if target else [iwd, slot_dir]
            cwd = target or iwd
        words += ["--pwd", cwd]
        words += [word for place in bound for word in ("-B", place)]
        words += self._devices(context.machine_ad)
        for place in self._binds(job):
            words += ["-B", place]
        if context.transfers:
            words += ["--home", scratch]
        words += ["--unsquash"] if self._unpacks_files else []
        return [*words, *self._containment(), *self._extra(context.machine_ad, context.job_ad)]

    def _target(self, job_ad: ClassAd) -> str:
        named = lookup(job_ad)("ContainerTargetDir")
        found = (self._settings.target_dir or (named if isinstance(named, str) else "")).rstrip("/")
        if any(character in found for character in ",:\n") or (found and not found.startswith("/")):
            name = "SINGULARITY_TARGET_DIR" if self._settings.target_dir else "container_target_dir"
            reason = f"{name} = {found!r} is not an absolute path, or has a comma, colon or line end"
            raise LaunchRefusedError(held(reason, FAILED_TO_CREATE_PROCESS, errno.EINVAL))
        return found

    def _devices(self, machine: ClassAd) -> list[str]:
        value = lookup(machine)
        if not value("AssignedGPUs"):
            return []
        words = ["--nv"] if value("GPUs_NvidiaDriver") else []
        rocm = value("GPUs_Rocm")
        return [*words, "--rocm"] if self._settings.rocm or (isinstance(rocm, int) and rocm > 0) else words

    def _binds(self, job: ContainerJob) -> list[str]:
        """What SINGULARITY_BIND_EXPR asks for and this host has."""
        context = job.context
        machine, ad = context.machine_ad, context.job_ad
        value = evaluate(self._settings.bind, machine, ad) if self._settings.bind is not None else None
        if not isinstance(value, str):
            value = lookup(ad)("SingularityBind") if self._settings.bind is None else None
        binds = value.replace(",", " ").split() if isinstance(value, str) else []
        if lookup(machine)("AssignedGPUs") and Path(_OPENCL).is_dir() and _OPENCL not in binds:
            binds.append(_OPENCL)
        found = []
        for bind in binds:
            source, _, rest = bind.partition(":")
            target = rest.partition(":")[0] or source
            if not Path(source).exists():
                _log.warning("%s: %s is not there, it is not mounted", context.job.job_id, source)
            elif self._settings.ignores_missing_target and _lacks(job.image, target):
                _log.warning("%s: the image has no directory %s, it is not mounted", context.job.job_id, target)
            else:
                found.append(bind)
        return found

    def _extra(self, machine: ClassAd, job_ad: ClassAd) -> list[str]:
        """SINGULARITY_EXTRA_ARGUMENTS: an expression that gives text, or the text as it is.

        :raises LaunchRefusedError: when it cannot be split into words.
        """
        text = self._settings.extra
        if not text:
            return []
        with contextlib.suppress(ValueError):
            value = evaluate(ExprTree(text, old=True), machine, job_ad)
            if isinstance(value, str):
                text = value
        try:
            quoted = in_double_quotes(text)
            return split_old(text) if quoted is None else split_new(quoted)
        except UsageError as error:
            reason = f"SINGULARITY_EXTRA_ARGUMENTS: {error}"
            raise LaunchRefusedError(held(reason, FAILED_TO_CREATE_PROCESS, errno.EINVAL)) from None

    # ---- the environment

    def _environment(self, spec: KeeperSpec, job: ContainerJob) -> tuple[dict[str, str], Mapping[str, str]]:
        """Apptainer's environment, and the paths that the container shows elsewhere.

        The job's variables are in it twice: as they are for what runs outside (the job wrapper), and behind a prefix as
        the container shall have them.
        """
        context = job.context
        directory = context.directory
        kept = {
            name: value
            for name, value in spec.env.items()
            if name != "HOME"
            and (not name.startswith(_OF_CONTAINER) or name in _ALLOWED or name in self._settings.allowed_variables)
        }
        moved: dict[str, str] = {}
        if target := self._target(context.job_ad):
            if context.transfers:
                moved[str(directory.path)] = target
            else:
                moved[str(directory.path)] = _SCRATCH_INSIDE
                moved[context.job.iwd] = target
        prefix = "APPTAINERENV_" if self._is_apptainer else "SINGULARITYENV_"
        inside = {
            f"{prefix}{name}": _inside(value, moved) for name, value in kept.items() if not name.startswith(prefix)
        }
        own = "APPTAINER" if self._is_apptainer else "SINGULARITY"
        scratch = str(directory.scratch)
        machine = lookup(context.machine_ad)("Name")
        env = {**inside, **kept, f"{own}_CACHEDIR": scratch, f"{own}_TMPDIR": scratch}
        env.setdefault("PATH", _PATH)
        if moved:
            env[f"{prefix}_CONDOR_SCRATCH_DIR_OUTSIDE_CONTAINER"] = scratch
        env[f"{prefix}PS1"] = f"{machine if isinstance(machine, str) else ''}$ "
        return env, moved

    # ---- around the job

    def inside(self, run: ContainerRun) -> Entrance | None:
        """The first process of the container, whose view the job has."""
        pid = innermost(run.pid)
        return Entrance(pid=pid, own_environment=True, cwd=_cwd(pid)) if pid else None

    async def describe(self, run: ContainerRun, job_ad: ClassAd) -> Mapping[str, Value]:
        """Nothing is known only while it runs."""
        return {}

    async def usage(self, run: ContainerRun) -> Mapping[str, Value]:
        """Nothing that the keeper does not measure: the job has the host's network."""
        return {}

    async def conclude(self, run: ContainerRun, result: KeeperResult) -> KeeperResult:
        """Nothing is left of a container whose processes are gone. A job that has left no mark did not run."""
        try:
            if f"arg={_LAUNCHER[2]}".encode() not in (run.directory.control / "spec").read_bytes().split(b"\0"):
                return result  # the knob may have another value now
            with rights_of(run.identity):
                (run.directory.scratch / _MARK).unlink()
        except FileNotFoundError:
            if result.how in ("exited", "signaled") and result.ended_by == "itself":
                detail = f"Apptainer ended with {result.how} {result.code} before the job ran"
                return replace(result, how="failed", stage="runtime", detail=detail)
        except OSError as error:
            _log.warning("run %s: %s: %s", run.run_id, _MARK, error.strerror)
        return result

    async def sweep(self, live: Collection[str]) -> list[str]:
        """What half a trial has left."""
        for path in self._place.glob("trial.*.sif"):
            pid = path.name.split(".")[1]
            if not Path(f"/proc/{pid}").exists():
                path.unlink(missing_ok=True)
        return self._images.sweep()


def image_of(job: ContainerJob) -> str:
    """The image as Apptainer is told of it: a path that is not absolute is one of the job's own files."""
    image, context = job.choice.image, job.context
    if image.startswith("/") or _ADDRESS.match(image):
        return image
    if lookup(context.job_ad)("WantDockerImage") is True:
        return f"docker://{image.removeprefix('docker:')}"
    top = str(context.directory.scratch) if context.transfers else context.job.iwd
    return f"{top}/{image}"


def _inside(text: str, moved: Mapping[str, str]) -> str:
    """A path or a value with paths as the container shows them."""
    for outside, inside in moved.items():
        text = text.replace(outside, inside)
    return text


def _lacks(image: str, target: str) -> bool:
    """Whether an unpacked image lacks a directory; what an image file has is not known."""
    return Path(image).is_dir() and not Path(f"{image}/{target}").is_dir()


def _words(ad: ClassAd, name: str) -> list[str]:
    value = lookup(ad)(name)
    return value.replace(",", " ").split() if isinstance(value, str) else []


def innermost(pid: int) -> int:
    """The job's own process in the container that Apptainer's process ``pid`` has made; 0 when it is not there (yet).

    It is the first descendant with another mount namespace that is not of Apptainer: neither the container's first
    process nor a server of its file systems.
    """
    outside, ahead = _namespace(pid), _children(pid)
    while ahead:
        pid = ahead.pop(0)
        if _namespace(pid) not in (outside, "") and _command(pid) not in _HELPERS:
            return pid
        ahead += _children(pid)
    return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return ""


def _cwd(pid: int) -> str:
    """The working directory of a process as it sees it itself."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def _lines(said: Answer) -> list[str]:
    text = _ANSI.sub("", f"{said.errors}\n{said.output}")
    return [line.strip() for line in text.splitlines() if line.strip()] or [f"status {said.status}"]


def _first_line(said: Answer) -> str:
    return _lines(said)[0]


def _last_line(said: Answer) -> str:
    lines = [line for line in _lines(said) if not line.startswith("/")]
    return lines[-1] if lines else f"status {said.status}"
