"""``curl_plugin -classad``, and ``curl_plugin -infile FILE -outfile FILE [-upload] [-diagnostic]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from slotwise.classad import parse_ads
from slotwise.curl_plugin import METHODS, VERSION
from slotwise.curl_plugin.transfers import Options, Request, complain, move

_USAGE = """Error: invalid arguments
Usage: curl_plugin -infile <input-filename> -outfile <output-filename> [general-opts]

[general-opts] are:
\t-diagnostic\t\tRun the plugin in diagnostic (verbose) mode

\t-upload\t\tRun the plugin in upload mode, copying files to a remote location
"""


def main(words: Sequence[str]) -> int:
    """Serve one call; the exit status, 1 when a file was not moved."""
    if list(words) == ["-classad"]:
        sys.stdout.write(_described())
        return 0
    names = {words[at]: words[at + 1] for at in range(len(words) - 1) if words[at] in ("-infile", "-outfile")}
    if "-infile" not in names:
        complain(_USAGE)
        return 1
    try:
        requests = _requests(Path(names["-infile"]))
    except (OSError, ValueError) as error:
        complain(f"Unable to read curl_plugin input file {names['-infile']}: {error}")
        return 1
    options = Options.of(os.environ, upload="-upload" in words, diagnostic="-diagnostic" in words)
    results = [move(request, options) for request in requests]
    said = "".join(f"{result.ad(os.environ)}\n" for result in results)
    try:
        if "-outfile" in names:
            Path(names["-outfile"]).write_text(said, "utf-8", "surrogateescape")
        else:
            sys.stdout.write(said)
    except OSError as error:
        complain(f"Unable to write curl_plugin output file {names['-outfile']}: {error}")
        return 1
    return 0 if all(result.success for result in results) else 1


def _described() -> str:
    lines = [
        "MultipleFileSupport = true",
        f'PluginVersion = "{VERSION}"',
        'PluginType = "FileTransfer"',
        "ProtocolVersion = 4",
        f'SupportedMethods = "{",".join(METHODS)}"',
    ]
    proxies = {f"{method}_proxy": os.environ.get(f"{method}_proxy") for method in METHODS}
    lines += [f'{name} = "{value}"' for name, value in proxies.items() if value is not None]
    return "".join(f"{line}\n" for line in lines)


def _requests(path: Path) -> list[Request]:
    """The files to move. Ads without a URL are those with PluginData, which is for other plugins.

    :raises OSError: when the file cannot be read.
    :raises ValueError: when it does not hold ads.
    """
    found = []
    for ad in parse_ads(path.read_text("utf-8", "surrogateescape")):
        url, name = ad.get("Url"), ad.get("LocalFileName")
        if isinstance(url, str) and isinstance(name, str):
            found.append(Request(url, name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
