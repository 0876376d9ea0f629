"""``condor_dagman``: the program of a DAG's job. Nobody types it; condor_submit_dag writes it into X.condor.sub."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.backoff import Backoff
from slotwise.classad import ClassAd
from slotwise.cli.host import condor_names
from slotwise.client import Schedd
from slotwise.dag import leftovers, reading, run_options, run_settings, submit_file
from slotwise.dag.acts import DagStatus
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.lock import HeldError, LockFile
from slotwise.dag.options import DagOptions
from slotwise.dag.plan import Plan
from slotwise.dag.runner import RESTART, Runner
from slotwise.dag.watch import Watch
from slotwise.errors import BusyError, HostError, PeerUnavailableError, SlotwiseError, UsageError
from slotwise.execution.dagman import PROGRAM
from slotwise.model.job_id import JobId
from slotwise.release import CONDOR_VERSION, HTCONDOR, condor_platform

if TYPE_CHECKING:
    from slotwise._native import DagData
    from slotwise.cli.common.invocation import Invocation
    from slotwise.dag.run_options import RunOptions
    from slotwise.dag.run_settings import RunSettings

#: Pauses while no schedd answers at the start of a run.
_SCHEDD_AGAIN = Backoff(first_s=0.1, factor=2.0, most_s=5.0)


def main(args: list[str], inv: Invocation) -> int:
    """Run a DAG to its end; gives HTCondor's exit statuses of a DAG's job."""
    watch = Watch()
    options = run_options.parse(args)
    cluster = _own_cluster(inv)
    log_name = inv.env.get("_CONDOR_DAGMAN_LOG") or f"{options.primary}.dagman.out"
    try:
        log = DebugLog(inv.path(log_name))
    except OSError as error:
        raise HostError(f"cannot write {log_name}: {error.strerror}") from None
    log.banner(f"{cluster}.0", CONDOR_VERSION, condor_platform())
    try:
        status = _run(options, cluster, log, watch, inv)
    except SlotwiseError as error:
        log.write(f"ERROR: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        status = 1
    log.write(f"**** condor_scheduniv_exec.{cluster}.0 (condor_DAGMAN) pid {os.getpid()} EXITING WITH STATUS {status}")
    log.close()
    return status


def _own_cluster(inv: Invocation) -> int:
    """The cluster of the job that this is.

    :raises UsageError: it is none.
    """
    job = JobId.match(inv.env.get("CONDOR_ID", ""))
    if job is None:
        raise UsageError("this is the program of a DAG's job", hint="submit DAGs with `slotwise dag submit FILE`")
    return job.cluster


def _run(options: RunOptions, cluster: int, log: DebugLog, watch: Watch, inv: Invocation) -> int:
    own_config = inv.env.get("_CONDOR_DAGMAN_CONFIG_FILE", "")
    admin, knobs = run_settings.configuration(inv.env, inv.home.root, own_config)
    settings = run_settings.settings(options, str(inv.cwd), admin, knobs)
    name = options.lock_file or f"{options.primary}.lock"
    try:
        lock = LockFile(inv.path(name), cluster)
    except HeldError as held:
        log.write(
            "Aborting because it looks like another instance of DAGMan is currently running on this DAG; "
            f"if that is not the case, delete the lock file ({name}) and re-submit the DAG."
        )
        return RESTART if held.cluster == cluster else 1
    except OSError as error:
        raise HostError(f"cannot write the lock file {name}: {error.strerror}") from None
    status = 1
    try:
        status = _run_locked(options, cluster, settings, log, watch, inv, recovers=lock.was_left or options.recovers)
    finally:
        if status != RESTART:
            try:
                lock.remove()
            except OSError as error:
                log.write(
                    f"ERROR: cannot remove the lock file {name}: {error.strerror}; while it is there, the DAG goes on"
                    " where this run has ended when it is submitted again"
                )
        lock.close()
    return status


def _run_locked(
    options: RunOptions,
    cluster: int,
    settings: RunSettings,
    log: DebugLog,
    watch: Watch,
    inv: Invocation,
    *,
    recovers: bool,
) -> int:
    dag = reading.read(options.files, settings.reading)
    if not _told(dag, log):
        return 1
    dag, rescue = _with_rescue(dag, options, settings, log, inv.cwd)
    if not dag.is_valid:
        return 1
    if settings.looks_for_cycles and (round_ := dag.cycle()):
        log.write(f"Nodes wait for each other: {' -> '.join([*round_[:20], round_[0]])}")
        log.write("ERROR: a cycle exists in the dag, please check input")
        return 1
    reached = _reached(cluster, log, watch, inv)
    if reached is None:
        return RESTART
    schedd, ad = reached
    with schedd:
        batch = options.batch_name or str(ad.get("JobBatchName") or f"{Path(options.primary).name}+{cluster}")
        parent = ad.get("DAGManJobId")
        plan = Plan(
            directory=inv.cwd,
            files=tuple(options.files),
            cluster=cluster,
            batch=batch,
            version=HTCONDOR,
            parent="" if parent is None else str(parent),
            rescue=rescue,
            recovers=recovers,
            was_halted=recovers and ad.get("DAG_Status") == DagStatus.HALTED,
            owner=str(ad.get("Owner") or ""),
            node=str(ad.get("DAGNodeName") or ""),
            inherited=_inherited(ad, settings),
            submit_dag=str(condor_names.program("condor_submit_dag")),
            handed_on=_handed_on(options),
            force=options.force,
        )
        return Runner(plan, settings, dag, log, schedd, watch).run()


def _told(dag: DagData, log: DebugLog) -> bool:
    """Log what is wrong with the files; whether they can be run."""
    for problem in reading.problems(dag):
        log.write(*(problem.log or (str(problem),)))
        if problem.severity == "error":
            break  # as HTCondor; `dag check` lists all
    return dag.is_valid


def _with_rescue(
    dag: DagData, options: RunOptions, settings: RunSettings, log: DebugLog, directory: Path
) -> tuple[DagData, int]:
    """The DAG with the rescue file or save point that it goes on from, and the number of the former."""
    number, name = 0, options.rescue_file
    most = settings.most_rescues
    if options.load_save:
        name = leftovers.save_point(options.primary, options.load_save)
    elif options.do_rescue_from > 0:
        number = options.do_rescue_from
        leftovers.put_aside(options.files, directory, number, most)
    elif options.auto_rescue and not name:
        number = leftovers.last_rescue(options.files, directory, most)
    if number:
        name = leftovers.rescue_name(options.files, number)
    if not name:
        return dag, 0
    try:
        text = (directory / name).read_text(errors="surrogateescape")
    except OSError as error:
        raise HostError(f"cannot read {name}: {error.strerror}") from None
    log.write(f"Running rescue DAG {number}" if number else f"Going on from {name}")
    dag = reading.rescued(dag, name, text, settings.reading)
    _told(dag, log)
    return dag, number


def _handed_on(options: RunOptions) -> tuple[str, ...]:
    """The options that condor_submit_dag is given for sub-DAGs."""
    names = set(DagOptions.__struct_fields__) & set(options.__struct_fields__) - {"files", "do_rescue_from", "force"}
    asked = DagOptions(**{name: getattr(options, name) for name in names})
    return tuple(submit_file.inherited(asked, options.dagman or str(condor_names.program(PROGRAM))))


def _reached(cluster: int, log: DebugLog, watch: Watch, inv: Invocation) -> tuple[Schedd, ClassAd] | None:
    """The schedd, and the ad of the DAG's job. A schedd that is away is waited for: it may have been killed as it
    started this job.

    :returns: None if the runner was told to end meanwhile.
    """
    attempt = 0
    while not watch.signals:
        try:
            with contextlib.ExitStack() as opened:
                schedd = opened.enter_context(Schedd(home=None, env=inv.env))
                found = schedd.query(f"ClusterId == {cluster}", limit=1)
                opened.pop_all()
                return schedd, found[0] if found else ClassAd()
        except (PeerUnavailableError, BusyError) as error:
            attempt += 1
            if attempt == 1:
                log.write(f"{error.message}; waiting for the schedd")
                log.flush()
            watch.wait(_SCHEDD_AGAIN.delay_s(attempt))
    return None


def _inherited(ad: ClassAd, settings: RunSettings) -> dict[str, str]:
    """Attributes of the DAG's job that its nodes' jobs get."""
    named = {name: settings.inherited_prefix + name for name in settings.inherited}
    named |= {name: name for name in ("AcctGroup", "AcctGroupUser", "AccountingGroup")}
    return {to: str(ad.lookup(name)) for name, to in named.items() if name in ad}
