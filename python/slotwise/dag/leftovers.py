"""Files of former runs of a DAG: rescue files by number, and what stands in the way of a new submission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from slotwise.dag import orders
from slotwise.dag.options import DagOptions
from slotwise.dag.submit_file import Names
from slotwise.errors import UsageError


def rescue_name(files: Sequence[str], number: int) -> str:
    """The name of a rescue file of the DAG in ``files``."""
    return f"{files[0]}{'_multi' if len(files) > 1 else ''}.rescue{number:03}"


def save_point(primary: str, name: str) -> str:
    """Where a save point lies: beside the DAG file, in a directory of its own, unless its name has one."""
    return name if "/" in name else str(Path(primary).parent / "save_files" / name)


def last_rescue(files: Sequence[str], directory: Path, most: int) -> int:
    """The highest number of a rescue file that is there, of ``most`` at most; 0 if there is none."""
    return max((n for n in range(1, most + 1) if (directory / rescue_name(files, n)).exists()), default=0)


def put_aside(files: Sequence[str], directory: Path, after: int, most: int) -> None:
    """Rename the rescue files behind number ``after`` to ``.old``."""
    for number in range(after + 1, last_rescue(files, directory, most) + 1):
        path = directory / rescue_name(files, number)
        if path.exists():
            path.replace(path.with_name(f"{path.name}.old"))


def clear_way(options: DagOptions, directory: Path, most: int) -> Iterator[str]:
    """See that a submission finds no files of a former run, or may overwrite them; gives lines for standard output.

    ``most``: DAGMAN_MAX_RESCUE_NUM.

    :raises UsageError: files are in the way, or a rescue file that is asked for is missing.
    """
    if options.do_rescue_from > 0:
        name = rescue_name(options.files, options.do_rescue_from)
        if not (directory / name).exists():
            raise UsageError(
                f"ERROR: -dorescuefrom {options.do_rescue_from} specified, but rescue DAG file {name} does not exist!"
            )
    (directory / f"{options.primary}.halt").unlink(missing_ok=True)
    (directory / orders.file_name(options.primary)).unlink(missing_ok=True)
    names = Names.of(options)
    made = (names.description, names.output, names.errors, names.log)
    if options.force:
        for name in made:
            (directory / name).unlink(missing_ok=True)
        yield "Renaming rescue DAGs newer than number 0"
        put_aside(options.files, directory, 0, most)
    runs_rescue = bool(options.auto_rescue) and bool(number := last_rescue(options.files, directory, most))
    if runs_rescue:
        yield f"Running rescue DAG {number}"
    goes_on = options.do_rescue_from > 0 or options.rescue_file or options.update_submit or options.load_save
    if runs_rescue or goes_on:
        return
    lines = [f'ERROR: "{name}" already exists.' for name in made if (directory / name).exists()]
    if lines:
        raise UsageError(
            "\n".join(
                (
                    *lines,
                    "",
                    "Some file(s) needed by condor_dagman already exist. Either:",
                    "- Rename them",
                    '- Use the "-f" option to force them to be overwritten',
                    "\tor",
                    '- Use the "-update_submit" option to update the submit file and continue.',
                )
            )
        )


__all__ = ["clear_way", "last_rescue", "put_aside", "rescue_name", "save_point"]
