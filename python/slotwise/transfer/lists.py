"""The lists of files in a job's ad: transfer lists, and renames of output files. Pure."""

from __future__ import annotations

from collections.abc import Callable


def is_null(name: str) -> bool:
    """Whether a file name of the ad means: no file."""
    return name in ("", "/dev/null", "NUL")


def split_list(text: str) -> tuple[str, ...]:
    """The names of a transfer list: separated by commas, blanks around them dropped."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def input_list(value: Callable[[str], object]) -> tuple[str, ...]:
    """The inputs that a job lists: TransferInput, and the common ones."""
    names = split_list(_text(value, "TransferInput"))
    return tuple(dict.fromkeys((*names, *common_list(value))))


def common_list(value: Callable[[str], object]) -> tuple[str, ...]:
    """The inputs that a job has in common with others: those of each catalog of CommonInputCatalogs, and
    CommonInputFiles. A host gets them once for many jobs where it can, else each job gets them as its own.
    """
    names = split_list(_text(value, "CommonInputCatalogs").replace(" ", ","))
    lists = (*(_text(value, f"_x_catalog_{name}") for name in names), _text(value, "CommonInputFiles"))
    return tuple(dict.fromkeys(name for listed in lists for name in split_list(listed)))


def _text(value: Callable[[str], object], name: str) -> str:
    found = value(name)
    return found if isinstance(found, str) else ""


def parse_remaps(text: str) -> dict[str, str]:
    """``a=b; c=d/e`` as a mapping; a backslash makes the next character plain."""
    remaps: dict[str, str] = {}
    words: list[str] = [""]
    source: str | None = None
    escaped = False
    for char in text + ";":
        if escaped:
            words[-1] += char
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "=" and source is None:
            source, words = words[-1].strip(), [""]
        elif char == ";":
            if source:
                remaps[source] = words[-1].strip()
            source, words = None, [""]
        else:
            words[-1] += char
    return remaps


def job_plugins(text: str) -> list[tuple[tuple[str, ...], str]]:
    """The plugins that a job brings, ``tar,gz=unpack;x=/site/x``: the methods of each in small letters, and its file. A
    part without ``=`` or without a file names none.
    """
    pairs = (part.partition("=") for part in text.split(";"))
    named = ((methods.replace(",", " ").lower().split(), path.strip()) for methods, _, path in pairs)
    return [(tuple(methods), path) for methods, path in named if methods and path]
