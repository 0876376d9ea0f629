"""``slotwise completion SHELL``: a script that completes commands, verbs, options and job ids in bash, zsh and fish.

The script is complete in itself; only ids of jobs are asked for when they are needed, of the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from slotwise.cli import help_text
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.parser import Parser
from slotwise.cli.registry import COMMANDS, CONDOR_NAMES, HTCONDOR_PREFIX

#: Commands whose words are ids of jobs, and the ones that complete names of files as shells do by themselves.
_OF_JOBS = (
    "q", "rm", "hold", "release", "suspend", "continue", "vacate-job", "prio", "qedit", "analyze", "tail", "ssh-to-job",
    "transfer-data",
)  # fmt: skip
#: Numbers alone: shells would carry out what else an access point might say.
_IDS = r"slotwise q -nobatch -af:j '' 2>/dev/null | awk '$1 ~ /^[0-9]+[.][0-9]+$/ {print $1}'"
#: Names of knobs with a value, and nothing else that a line of a value may be.
_KNOBS = r"""slotwise config dump 2>/dev/null | awk '$2 == "=" && $1 ~ /^[A-Za-z0-9_.]+$/ {print $1}'"""


class Words(Struct, frozen=True):
    """What can follow a command: its verbs and options; ``jobs``: ids of jobs, too."""

    help: str
    verbs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    jobs: bool = False


def main(args: list[str], inv: Invocation) -> int:
    """Print the script."""
    parser = Parser(
        inv,
        "completion",
        "A script that completes commands, options and job ids: `source <(slotwise completion bash)`, or put it where "
        "the shell looks for completions.",
    )
    parser.add_argument("shell", choices=sorted(SHELLS), metavar="SHELL", help="bash, fish or zsh")
    options = parser.take(args)
    if options is None:
        return 0
    inv.out(SHELLS[options.shell](words_of_commands()).rstrip())
    return 0


def words_of_commands() -> dict[str, Words]:
    """What can follow each command, from its own help."""
    from slotwise.cli.document import columns, help_of

    found = {}
    with columns(80):
        for name, entry in COMMANDS.items():
            parts = help_text.read(help_of(name))
            options = set(parts.options)
            for verb in parts.verbs:
                options |= set(help_text.read(help_of(name, verb)).options)
            # One spelling of each is enough: both dashes are understood everywhere.
            short = {option for option in options if not (option.startswith("--") and option[1:] in options)}
            found[name] = Words(entry.help, tuple(parts.verbs), tuple(sorted(short)), name in _OF_JOBS)
    return found


def _aliases() -> dict[str, str]:
    """HTCondor's names of our commands."""
    names = {entry: name for name, entry in COMMANDS.items()}
    return {alias: names[entry] for alias, entry in CONDOR_NAMES.items() if entry in names}


def _bash(commands: Mapping[str, Words]) -> str:
    cases = []
    for name, words in commands.items():
        ids = f" $({_IDS})" if words.jobs else ""
        cases.append(
            f"        {name}) verbs='{' '.join(words.verbs)}' options='{' '.join(words.options)}'"
            + (f'; [[ $word == -* ]] || ids="{ids.strip()}"' if ids else "")
            + " ;;"
        )
    aliases = " ".join(_aliases())
    return f"""\
# Completion of slotwise for bash. Made by `slotwise completion bash`.
_slotwise() {{
    local called=${{COMP_WORDS[0]##*/}} word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
    local first=2 verbs= options= ids=
    if [[ $called == {HTCONDOR_PREFIX}* ]]; then
        command=${{called#{HTCONDOR_PREFIX}}}
        command=${{command//_/-}} first=1
    elif (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W '{" ".join(commands)} help' -- "$word"))
        return
    fi
    case $command in
{chr(10).join(cases)}
        help) options='{" ".join(commands)}' ;;
    esac
    if [[ $command == config && COMP_CWORD -gt first && $word != -* ]]; then
        ids="$({_KNOBS})"
    fi
    if [[ $word == --* ]]; then
        local option
        for option in $options; do [[ $option == --* ]] || options+=" -$option"; done
    fi
    (( COMP_CWORD == first )) || verbs=
    COMPREPLY=($(compgen -W "$verbs $options $ids" -- "$word"))
}}
complete -o default -F _slotwise slotwise {aliases}
"""


def _zsh(commands: Mapping[str, Words]) -> str:
    described = "\n".join(f"        {_quoted(f'{name}:{words.help}')}" for name, words in commands.items())
    cases = []
    for name, words in commands.items():
        ids = f' ${{(f)"$({_IDS})"}}' if words.jobs else ""
        cases.append(f"        {name}) found=({' '.join((*words.verbs, *words.options))}{ids}) ;;")
    return f"""\
#compdef slotwise {" ".join(_aliases())}
# Completion of slotwise for zsh. Made by `slotwise completion zsh`.
_slotwise() {{
    local -a commands found
    local command=$words[2]
    commands=(
{described}
    )
    if [[ ${{words[1]:t}} == {HTCONDOR_PREFIX}* ]]; then
        command=${{${{words[1]:t}}#{HTCONDOR_PREFIX}}}
        command=${{command//_/-}}
    elif (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case $command in
{chr(10).join(cases)}
    esac
    compadd -a found
    [[ $PREFIX == -* ]] || _files
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _slotwise "$@"
else
    compdef _slotwise slotwise {" ".join(_aliases())}
fi
"""


def _fish(commands: Mapping[str, Words]) -> str:
    lines = ["# Completion of slotwise for fish. Made by `slotwise completion fish`."]
    first = "complete -c slotwise -n __fish_use_subcommand"
    lines += [f"{first} -f -a {name} -d {_quoted(words.help)}" for name, words in commands.items()]
    for name, words in commands.items():
        places = [f"complete -c slotwise -n '__fish_seen_subcommand_from {name}'"]
        places += [f"complete -c {alias}" for alias, of in _aliases().items() if of == name]
        for place in places:
            if words.verbs:
                lines.append(f"{place} -f -a '{' '.join(words.verbs)}'")
            if words.jobs:
                lines.append(f"{place} -a {_quoted(f'({_IDS})')}")
            for option in words.options:
                # Options of HTCondor's commands have one dash or two.
                kinds = ("-l",) if option.startswith("--") else ("-o", "-l") if len(option) > 2 else ("-s",)
                lines.append(" ".join([place, *(f"{kind} {option.lstrip('-')}" for kind in kinds)]))
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Text in single quotes, for zsh and fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


SHELLS: dict[str, Callable[[Mapping[str, Words]], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
