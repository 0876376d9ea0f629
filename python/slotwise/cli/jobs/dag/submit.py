"""``condor_submit_dag`` and ``slotwise dag submit``: a DAG's job into the queue."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slotwise._native import DAG_BYTES_MOST
from slotwise.cli.host import condor_names
from slotwise.cli.jobs import submit as condor_submit
from slotwise.cli.jobs.dag import check
from slotwise.dag import leftovers, options, reading, submit_file
from slotwise.dag.options import DagOptions, DagUsageError
from slotwise.errors import UsageError
from slotwise.execution.dagman import PROGRAM
from slotwise.release import CONDOR_VERSION, condor_platform

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config

_RULE = "-" * 71


def main(args: list[str], inv: Invocation) -> int:
    """``slotwise dag submit``: nothing is submitted while something is wrong with the DAG's files, but with -loose."""
    loose = "-loose" in args or "--loose" in args
    return _run([word for word in args if word not in ("-loose", "--loose")], inv, checks=not loose)


def condor_submit_dag(args: list[str], inv: Invocation) -> int:
    """As HTCondor: errors in the files, but for unknown commands, are the runner's to find."""
    return _run(args, inv, checks=False)


def _run(args: list[str], inv: Invocation, *, checks: bool) -> int:
    for word in args:
        if not word.startswith("-"):
            break
        if "-vers" in word.lower():
            inv.out(f"{CONDOR_VERSION}\n{condor_platform()}")
            return 0
        if word.lower().lstrip("-") in ("h", "help"):
            inv.out(_usage(inv))
            return 0
    knobs = inv.knobs()
    asked = DagOptions(
        auto_rescue=int(knobs.get_bool("DAGMAN_AUTO_RESCUE")),
        insert_sub_file=knobs.get_str("DAGMAN_INSERT_SUB_FILE") or "",
    )
    try:
        options.parse(args, asked)
    except DagUsageError as error:
        (inv.out if error.on_output else inv.err)(error.message)
        inv.out(_usage(inv))
        return 1
    try:
        return _submit(asked, inv, knobs, checks=checks)
    except UsageError as error:
        inv.err(error.message)
        return 1


def _usage(inv: Invocation) -> str:
    if inv.called:
        return options.usage("condor_submit_dag")
    loose = f"    {'-loose':<30} (Submit as condor_submit_dag does, without looking for errors in the DAG files)"
    return f"{options.usage('slotwise dag submit')}\n{loose}"


def _submit(asked: DagOptions, inv: Invocation, knobs: Config, *, checks: bool) -> int:
    if checks and all(inv.path(name).is_file() for name in asked.files):
        dag, found = check.look(asked.files, inv, use_dag_dir=asked.use_dag_dir, program=asked.dagman)
        if check.tell(dag, found, inv):
            return 1
    around = _surroundings(asked, inv, knobs)
    attributes = _read_headers(asked, inv, knobs)
    if asked.recurse and not _recurse(asked, inv, around.dagman):
        inv.err("Recursive submit(s) failed; exiting without attempting top-level submit")
        return 1
    for line in leftovers.clear_way(asked, inv.cwd, knobs.get_int("DAGMAN_MAX_RESCUE_NUM")):
        if not asked.terse:
            inv.out(line)
    names = submit_file.Names.of(asked)
    path = inv.path(names.description)
    if asked.update_submit and path.exists():
        kept = submit_file.kept_throttles(path.read_text(errors="surrogateescape"))
        former = replace(asked, files=[])
        options.parse([*kept, *asked.files], former)
        asked = former
    text = submit_file.text(asked, attributes, _inserted(asked, inv), around)
    try:
        path.write_text(text, errors="surrogateescape")
    except OSError as error:
        raise UsageError(
            f"ERROR: Unable to create submit file {names.description}\n{error.strerror or error}"
        ) from None
    if asked.terse and asked.submits:
        return _queue(asked, inv, "-terse")
    inv.out(_RULE)
    inv.out(f"File for submitting this DAG to HTCondor           : {names.description}")
    inv.out(f"Log of DAGMan debugging messages                   : {names.debug_log}")
    inv.out(f"Log of HTCondor library output                     : {names.output}")
    inv.out(f"Log of HTCondor library error messages             : {names.errors}")
    inv.out(f"Log of the life of condor_dagman itself            : {names.log}")
    inv.out("")
    if not asked.submits:
        inv.out("-no_submit given, not submitting DAG to HTCondor. You can do this with:")
        inv.out(f'"condor_submit {names.description}"')
    elif _queue(asked, inv):
        inv.err("ERROR: condor_submit failed; aborting.")
        return 1
    inv.out(_RULE)
    return 0


def _queue(asked: DagOptions, inv: Invocation, *words: str) -> int:
    """Submit the description that has been written."""
    remote = ["-remote", asked.remote] if asked.remote else []
    name = submit_file.Names.of(asked).description
    return condor_submit.main([*words, *remote, name], replace(inv, called="condor_submit"))


def _surroundings(asked: DagOptions, inv: Invocation, knobs: Config) -> submit_file.Surroundings:
    dagman = asked.dagman or knobs.get_str("SLOTWISE_DAGMAN") or str(condor_names.program(PROGRAM))
    return submit_file.Surroundings(
        dagman=dagman,
        version=CONDOR_VERSION,
        on_exit_remove=knobs.get_str("DAGMAN_ON_EXIT_REMOVE") or submit_file.ON_EXIT_REMOVE,
        append_getenv=knobs.get_str("DAGMAN_MANAGER_JOB_APPEND_GETENV") or "",
        # As HTCondor: what its configuration's separator or a line's end would cut is left out.
        environment={
            name: value for name, value in inv.env.items() if ";" not in name + value and "\n" not in name + value
        },
    )


def _read_headers(asked: DagOptions, inv: Invocation, knobs: Config) -> list[str]:
    """The lines of SET_JOB_ATTR; CONFIG and ENV go into the options.

    :raises UsageError: a file is missing or has an unknown command, or configuration files are two.
    """
    attributes: list[str] = []
    configs: set[str] = set()
    for name in asked.files:
        path = inv.path(name)
        if not path.exists():
            raise UsageError("ERROR: Provided file path does not exist")
        if not path.is_file():
            raise UsageError("ERROR: Provided file path is not a file")
        if path.stat().st_size > DAG_BYTES_MOST:
            raise UsageError(f"ERROR: {name} is larger than all files of a DAG may be ({DAG_BYTES_MOST} bytes)")
        how = check.read_options(inv, knobs, use_dag_dir=asked.use_dag_dir)
        if asked.use_dag_dir:
            how = replace(how, directory=str(path.parent))
        label = path.name if asked.use_dag_dir else name
        header = reading.header(label, path.read_text(errors="surrogateescape"), how)
        if found := reading.problems(header):
            raise UsageError(found[0].log[0])
        attributes += header.job_attributes
        configs.update(header.configs)
        for sets, variables in header.environment:
            (asked.insert_env if sets else asked.include_env).append(variables)
    if len(configs) > 1:
        raise UsageError(f"ERROR: Multiple ({len(configs)}) configuration files provided.")
    if asked.config:
        asked.config = str(inv.path(asked.config))
    for config in configs:
        if asked.config and asked.config != config:
            raise UsageError(f"ERROR: Conflicting DAGMan config files specified: {asked.config} and {config}")
        asked.config = config
    if asked.config and not os.access(asked.config, os.R_OK):
        raise UsageError(f"ERROR: Can't read DAGMan config file: {asked.config}")
    return attributes


def _inserted(asked: DagOptions, inv: Invocation) -> list[str]:
    if not asked.insert_sub_file:
        return []
    try:
        text = inv.path(asked.insert_sub_file).read_text(errors="surrogateescape")
    except OSError:
        raise UsageError(f"ERROR: Unable to read submit append file {asked.insert_sub_file}") from None
    return [line.strip() for line in text.splitlines()]


def _recurse(asked: DagOptions, inv: Invocation, dagman: str) -> bool:
    """Write the descriptions of the DAG's sub-DAGs; whether all could be written."""
    dag = reading.read(asked.files, check.read_options(inv, inv.knobs(), use_dag_dir=asked.use_dag_dir))
    words = ["-no_submit", "-update_submit", *(["-force"] if asked.force else [])]
    if asked.priority:
        words += ["-Priority", str(asked.priority)]
    words += submit_file.inherited(asked, dagman)
    done = True
    for _, directory, kind, name in dag.files():
        if kind == "dag":
            below = replace(inv, cwd=inv.path(directory))
            done = condor_submit_dag([*words, name], below) == 0 and done
    return done
