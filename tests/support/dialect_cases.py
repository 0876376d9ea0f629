r"""In which syntax of ClassAds HTCondor's commands, knobs and modules read an expression that is text.

Strings tell: ``"\\a"`` has two characters in the new syntax and three in the old. Each probe is a line of shell that prints
``old`` or ``new``; a second run, with a word behind the expression, says whether that is ignored.

``python3 dialect_cases.py`` in a directory of a pool with :data:`CONFIG`, and HTCondor's commands in PATH, prints what
they answer (conformance/dialects.json).
"""

# ruff: noqa: E501 - lines of shell and of programs are left whole
from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

#: An expression whose value is the name of the syntax that it was read in, and two of which one is true.
_VALUE, _OLD, _NEW = (
    r'ifThenElse(size("\\a") == 3, "old", "new")',
    r'(size("\\a") == 3)',
    r'(size("\\a") == 2)',
)

CONFIG = rf"""
STARTD_ATTRS = $(STARTD_ATTRS) ByStartdAttrs
ByStartdAttrs = {_VALUE}
SLOT1_STARTD_ATTRS = BySlotAttrs
BySlotAttrs = {_VALUE}
SCHEDD_ATTRS = $(SCHEDD_ATTRS) ByScheddAttrs
ByScheddAttrs = {_VALUE}
MASTER_ATTRS = ByDaemonAttrs
COLLECTOR_ATTRS = ByDaemonAttrs
NEGOTIATOR_ATTRS = ByDaemonAttrs
ByDaemonAttrs = {_VALUE}
START = {_OLD}
RANK = ifThenElse({_OLD}, 2.0, 1.0)
SLOT_WEIGHT = ifThenElse({_OLD}, 2, 1)
MAXJOBRETIREMENTTIME = ifThenElse({_OLD}, 2, 1)
NEGOTIATOR_JOB_CONSTRAINT = {_OLD}
NEGOTIATOR_SLOT_CONSTRAINT = {_OLD}
SUBMIT_ATTRS = BySubmitAttrs
BySubmitAttrs = {_VALUE}
SYSTEM_PERIODIC_HOLD = Probe =?= "hold" && {_OLD}
SYSTEM_PERIODIC_HOLD_REASON = {_VALUE}
SYSTEM_PERIODIC_HOLD_SUBCODE = ifThenElse({_OLD}, 2, 1)
SYSTEM_PERIODIC_REMOVE = Probe =?= "remove" && {_OLD}
SYSTEM_PERIODIC_REMOVE_REASON = {_VALUE}
PERIODIC_EXPR_INTERVAL = 1
APPEND_REQUIREMENTS = {_OLD}
JOB_DEFAULT_REQUESTDISK = ifThenElse({_OLD}, 2000, 1000)
SUBMIT_REQUIREMENT_NAMES = Plain, Never
SUBMIT_REQUIREMENT_Plain = Probe =!= "refuse" || {_NEW}
SUBMIT_REQUIREMENT_Never = Probe =!= "refuse2"
SUBMIT_REQUIREMENT_Never_REASON = {_VALUE}
JOB_TRANSFORM_NAMES = Set
JOB_TRANSFORM_Set @=end
REQUIREMENTS {_OLD}
SET ByTransformSet {_VALUE}
DEFAULT ByTransformDefault {_VALUE}
EVALSET ByTransformEvalset {_VALUE}
EVALMACRO X {_VALUE}
SET ByTransformEvalmacro "$(X)"
@end
A_VALUE = {_VALUE}
A_SIZE = size("\\a")
AN_INT = $INT(A_SIZE)
A_STRING = $STRING(A_VALUE)
AN_EVAL = $EVAL(A_VALUE)
"""

FILES = {
    "job.sub": "executable = /bin/sleep\narguments = 1\nhold = true\n"
    f"+ByPlus = {_VALUE}\nMY.ByMy = {_VALUE}\n"
    'request_memory = 60 + size("\\\\a")\n'
    "x_size = size(\"\\\\a\")\nx_int = $INT(x_size)\n+ByInt = ifThenElse($(x_int) == 3, \"old\", \"new\")\n"
    f'x_value = {_VALUE}\n+ByEval = "$EVAL(x_value)"\n'
    "queue\n",
    "hold.sub": 'executable = /bin/sleep\narguments = 1\nrequirements = false\n+Probe = "hold"\nqueue\n',
    "refuse.sub": 'executable = /bin/sleep\narguments = 1\nrequirements = false\n+Probe = "refuse"\nqueue\n',
    "remove.sub": 'executable = /bin/sleep\narguments = 1\nrequirements = false\n+Probe = "remove"\nqueue\n',
    "idle.sub": 'executable = /bin/sleep\narguments = 1\nrequirements = false\n+Probe = "idle"\nqueue\n',
    "refuse2.sub": 'executable = /bin/sleep\narguments = 1\nrequirements = false\n+Probe = "refuse2"\nqueue\n',
    "gone.sub": 'executable = /bin/sleep\narguments = 1\nhold = true\n+Probe = "gone"\nqueue\n',
    "run.sub": f'executable = /bin/sleep\narguments = 600\n+Probe = "run"\nrequirements = {_OLD}\nrank = {_OLD}\n'
    "request_memory = 64\nqueue\n",
    "old.ads": f"ClusterId = 1\nProcId = 0\nJobStatus = 1\nMyType = \"Job\"\nName = \"a\"\nX = {_VALUE}\n",
    "new.ads": f"[ ClusterId = 1; ProcId = 0; MyType = \"Job\"; Name = \"a\"; X = {_VALUE} ]\n",
    "xml.ads": '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n<c>\n<a n="MyType"><s>Machine</s></a>\n<a n="Name"><s>a</s></a>\n'
    f'<a n="X"><e>{_VALUE}</e></a>\n</c>\n</classads>\n',
    "json.ads": json.dumps([{"MyType": "Machine", "Name": "a", "X": f"/Expr({_VALUE})/"}]).replace("/", "\\/") + "\n",
    "column.cpf": f"SELECT BARE\n{_VALUE}\nSUMMARY NONE\n",
    "printf.cpf": f"SELECT BARE\n{_VALUE} PRINTF \"%s\"\nSUMMARY NONE\n",
    "where_old.cpf": f"SELECT BARE\n\"old\"\nWHERE {_OLD}\nSUMMARY NONE\n",
    "where_new.cpf": f"SELECT BARE\n\"new\"\nWHERE {_NEW}\nSUMMARY NONE\n",
    "past.ads": 'ClusterId = 1\nProcId = 0\n*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = "ann" CompletionDate = 1\n',
    "two.ads": 'MyType = "Machine"\nName = "a"\n\nMyType = "Machine"\nName = "b"\n',
    "requirements.xfm": f"REQUIREMENTS {_OLD}\nSET X \"old\"\n",
    "set.xfm": f"SET X {_VALUE}\n",
    "default.xfm": f"DEFAULT Y {_VALUE}\n",
    "evalset.xfm": f"EVALSET X {_VALUE}\n",
    "evalmacro.xfm": f"EVALMACRO m {_VALUE}\nSET X \"$(m)\"\n",
    "int.xfm": "n = size(\"\\\\a\")\nSET X ifThenElse($INT(n) == 3, \"old\", \"new\")\n",
    "my.xfm": "SET X $(MY.X)\n",
    "probe.py": r'''
import sys
import classad2, htcondor2
value, old, new, rest = sys.argv[2:6]
schedd, collector = htcondor2.Schedd(), htcondor2.Collector()
def which(ask):
    for name, text in (("old", old), ("new", new)):
        if ask(text):
            return name
def edit(value):
    schedd.edit("1.0", "ByEdit", value)
    return schedd.query("ClusterId == 1", ["ByEdit"])[0].eval("ByEdit")
def act(text):
    done = schedd.act(htcondor2.JobAction.Hold, text)
    return done["TotalSuccess"] + done["TotalAlreadyDone"]
def edit_those(text):
    try:
        return schedd.edit(f"ClusterId == 1 && {text}", "Seen", "1")
    except htcondor2.HTCondorException:
        return 0
expr = classad2.ExprTree
asked = {
    "Schedd.query": lambda: which(lambda text: schedd.query(f"ClusterId == 1 && {text}" + rest)),
    "Schedd.query of an ExprTree": lambda: which(lambda text: schedd.query(expr(text))),
    "Schedd.act": lambda: which(lambda text: act(f"ClusterId == 1 && {text}" + rest)),
    "Schedd.edit, jobs": lambda: which(lambda text: edit_those(text + rest)),
    "Schedd.edit, value": lambda: edit(value + rest),
    "Schedd.edit, value of an ExprTree": lambda: edit(expr(value)),
    "Schedd.history": lambda: which(lambda text: list(schedd.history(text + rest, ["ClusterId"], match=1))),
    "Collector.query": lambda: which(lambda text: collector.query(htcondor2.AdType.Startd, text + rest)),
    "Collector.query of an ExprTree": lambda: which(lambda text: collector.query(htcondor2.AdType.Startd, expr(text))),
    "classad2.ExprTree": lambda: expr(value + rest).eval(),
    "classad2.ClassAd of text": lambda: classad2.ClassAd(f"[ X = {value}{rest} ]").eval("X"),
    "classad2.parseOne, old": lambda: classad2.parseOne(f"X = {value}{rest}\n", classad2.ParserType.Old).eval("X"),
    "classad2.parseOne, new": lambda: classad2.parseOne(f"[ X = {value}{rest} ]", classad2.ParserType.New).eval("X"),
}
try:
    print(asked[sys.argv[1]]())
except Exception as error:
    print(f"{type(error).__name__}")
''',
}  # fmt: skip

#: Before the probes: one held job, one that a knob holds, one that it refuses, and one in the history.
SETUP = (
    "condor_submit job.sub",
    "condor_submit hold.sub",
    "condor_submit gone.sub",
    "condor_rm 3",
    "condor_submit remove.sub",
    'for i in $(seq 200); do test -n "$(condor_q 2.0 -af HoldReasonSubCode)" && break; sleep 0.1; done',
    'for i in $(seq 200); do test -n "$(condor_history 4 -af ClusterId)" && break; sleep 0.1; done',
    'for i in $(seq 200); do test -n "$(condor_history 3 -af ClusterId)" && break; sleep 0.1; done',
)


def _either(command: str, shows: str = "-af '\"%s\"'") -> str:
    """A command that shows what a constraint lets through."""
    return "; ".join(
        f"{command.replace('CONDITION', text)} {shows % name}" for name, text in (("old", "OLD"), ("new", "NEW"))
    )


def _python(what: str) -> str:
    return f"python3 probe.py '{what}' 'VALUE' 'OLD' 'NEW' 'REST'"


def _transformed(rules: str, attribute: str = "X") -> str:
    return f"condor_transform_ads -rules {rules}.xfm -in old.ads -long | condor_status -ads - -af {attribute}"


_RUNS = "condor_q -constraint 'Probe == \"run\"' -af JobStatus | sed 's/2/old/;s/1/new/'"

#: By place: a line of shell in which VALUE, OLD, NEW and REST stand for the expressions, a word behind them included.
PROBES: dict[str, str] = {
    "condor_q -af": "condor_q 1.0 -af 'VALUE'",
    "condor_q -format": "condor_q 1.0 -format '%s\\n' 'VALUE'",
    "condor_q -constraint": _either("condor_q 1.0 -constraint 'CONDITION'"),
    "condor_q -print-format, column": "condor_q 1.0 -print-format column.cpf",
    "condor_q -print-format, column with PRINTF": "condor_q 1.0 -print-format printf.cpf",
    "condor_q -print-format, WHERE": "condor_q 1.0 -print-format where_old.cpf; condor_q 1.0 -print-format where_new.cpf",
    "condor_q -jobads -constraint": _either("condor_q -jobads old.ads -constraint 'CONDITION'"),
    "condor_q -jobads, the file": "condor_q -jobads old.ads -af X",
    "condor_status -af": "condor_status -limit 1 -af 'VALUE'",
    "condor_status -format": "condor_status -limit 1 -format '%s\\n' 'VALUE'",
    "condor_status -constraint": _either("condor_status -limit 1 -constraint 'CONDITION'"),
    "condor_status -print-format, column": "condor_status -ads old.ads -print-format column.cpf",
    "condor_status -print-format, WHERE": "condor_status -ads old.ads -print-format where_old.cpf; "
    "condor_status -ads old.ads -print-format where_new.cpf",
    "condor_status -sort": "condor_status -ads two.ads -sort 'ifThenElse(OLD, Name != \"b\", Name != \"a\")' -af Name | "
    "head -1 | sed 's/b/old/;s/a/new/'",
    "condor_status -ads, the file in the old syntax": "condor_status -ads:long old.ads -af X",
    "condor_status -ads, the file in the new syntax": "condor_status -ads:new new.ads -af X",
    "condor_status -ads, the file in XML": "condor_status -ads:xml xml.ads -af X",
    "condor_status -ads, the file in JSON": "condor_status -ads:json json.ads -af X",
    "condor_history -af": "condor_history 3 -af 'VALUE'",
    "condor_history -constraint": _either("condor_history 3 -constraint 'CONDITION'"),
    "condor_history -since": "condor_history -since 'OLD' -af '\"new\"' | tail -1; condor_history -since 'NEW' -af '\"old\"' | tail -1",
    "condor_history -print-format, column": "condor_history 3 -print-format column.cpf | tail -1",
    "condor_history -format": "condor_history 3 -format '%s\\n' 'VALUE'",
    "condor_history -file -constraint": _either("condor_history -file past.ads -constraint 'CONDITION'"),
    "condor_status -schedd -constraint": _either("condor_status -schedd -constraint 'CONDITION'"),
    "condor_hold -constraint": "condor_submit idle.sub >/dev/null; "
    + "; ".join(
        f"condor_hold -constraint 'Probe == \"idle\" && {text}' 2>&1 | sed -n 's/.*have been held.*/{name}/p'"
        for name, text in (("old", "OLD"), ("new", "NEW"))
    ),
    "condor_qedit, value": "condor_qedit 1.0 ByQedit 'VALUE' >/dev/null; condor_q 1.0 -af ByQedit",
    "condor_qedit -constraint": "condor_qedit -constraint 'ClusterId == 1 && OLD' Seen 1 | sed -n 's/^Set .*/old/p'; "
    "condor_qedit -constraint 'ClusterId == 1 && NEW' Seen 1 | sed -n 's/^Set .*/new/p'",
    "condor_submit, +Attribute": "condor_q 1.0 -af ByPlus",
    "condor_submit, MY.Attribute": "condor_q 1.0 -af ByMy",
    "condor_submit, an expression of a command": "condor_q 1.0 -af RequestMemory | sed 's/63/old/;s/62/new/'",
    "condor_submit, $INT()": "condor_q 1.0 -af ByInt",
    "condor_submit, $EVAL()": "condor_q 1.0 -af ByEval",
    "condor_submit -append": "condor_submit -dry-run - -append '+ByAppend = VALUE' job.sub | "
    "sed -n 's/^ByAppend/X/p' > appended.ads; condor_status -ads appended.ads -af X",
    "condor_transform_ads, REQUIREMENTS": "condor_transform_ads -rules requirements.xfm -in old.ads -long | "
    "grep -q '^X = \"old\"' && echo old || echo new",
    "condor_transform_ads, SET": _transformed("set"),
    "condor_transform_ads, DEFAULT": _transformed("default", "Y"),
    "condor_transform_ads, EVALSET": _transformed("evalset"),
    "condor_transform_ads, EVALMACRO": _transformed("evalmacro"),
    "condor_transform_ads, $INT()": _transformed("int"),
    "condor_transform_ads, $(MY.Attribute)": _transformed("my"),
    "condor_advertise, the file": "sed 's/Job/Generic/' old.ads | condor_advertise UPDATE_AD_GENERIC - >/dev/null; "
    "condor_status -generic -af X",
    "STARTD_ATTRS": "condor_status -limit 1 -af ByStartdAttrs",
    "SCHEDD_ATTRS": "condor_status -schedd -af ByScheddAttrs",
    "MASTER_ATTRS": "condor_status -master -af ByDaemonAttrs",
    "COLLECTOR_ATTRS": "condor_status -collector -af ByDaemonAttrs",
    "NEGOTIATOR_ATTRS": "condor_status -negotiator -af ByDaemonAttrs",
    "SUBMIT_ATTRS": "condor_q 1.0 -af BySubmitAttrs",
    "START": "condor_status -limit 1 -af Start | sed 's/true/old/;s/false/new/'",
    "RANK": "condor_status -limit 1 -af 'int(Rank)' | sed 's/2/old/;s/1/new/'",
    "SLOT_WEIGHT": "condor_status -limit 1 -af 'int(SlotWeight)' | sed 's/2/old/;s/1/new/'",
    "MAXJOBRETIREMENTTIME": "condor_status -limit 1 -af MaxJobRetirementTime | sed 's/2/old/;s/1/new/'",
    "SYSTEM_PERIODIC_HOLD": "condor_q 2.0 -af HoldReasonCode | sed 's/26/old/;s/undefined/new/'",
    "SYSTEM_PERIODIC_HOLD_REASON": "condor_q 2.0 -af HoldReason",
    "SYSTEM_PERIODIC_HOLD_SUBCODE": "condor_q 2.0 -af HoldReasonSubCode | sed 's/2/old/;s/1/new/'",
    "SYSTEM_PERIODIC_REMOVE": "condor_history 4 -af JobStatus | sed 's/3/old/'",
    "SYSTEM_PERIODIC_REMOVE_REASON": "condor_history 4 -af RemoveReason",
    "APPEND_REQUIREMENTS": "condor_q 1.0 -format %r Requirements | "
    "sed 's/.*size(\"\\\\\\\\a\").*/old/;s/.*size(\"\\\\a\").*/new/'",
    "JOB_DEFAULT_REQUESTDISK": "condor_q 1.0 -af RequestDisk | sed 's/2000/old/;s/1000/new/'",
    "SUBMIT_REQUIREMENT_<name>": "condor_submit refuse.sub >/dev/null 2>&1 && echo new || echo old",
    "SUBMIT_REQUIREMENT_<name>_REASON": "condor_submit refuse2.sub 2>&1 | grep -o 'old\\|new' | head -1",
    "JOB_TRANSFORM_<name>, SET": "condor_q 1.0 -af ByTransformSet",
    "JOB_TRANSFORM_<name>, DEFAULT": "condor_q 1.0 -af ByTransformDefault",
    "JOB_TRANSFORM_<name>, EVALSET": "condor_q 1.0 -af ByTransformEvalset",
    "JOB_TRANSFORM_<name>, EVALMACRO": "condor_q 1.0 -af ByTransformEvalmacro",
    "a configuration, $INT()": "condor_config_val AN_INT | sed 's/3/old/;s/2/new/'",
    "a configuration, $STRING()": "condor_config_val A_STRING",
    "a configuration, $EVAL()": "condor_config_val AN_EVAL",
    **{f"htcondor2, {what}": _python(what) for what in (
        "Schedd.query", "Schedd.query of an ExprTree", "Schedd.act", "Schedd.edit, jobs", "Schedd.edit, value",
        "Schedd.edit, value of an ExprTree", "Schedd.history", "Collector.query", "Collector.query of an ExprTree")},
    **{what: _python(what) for what in (
        "classad2.ExprTree", "classad2.ClassAd of text", "classad2.parseOne, old", "classad2.parseOne, new")},
}  # fmt: skip
#: They are last, since a job that runs changes the slots.
PROBES |= {
    "NEGOTIATOR_JOB_CONSTRAINT": "condor_submit run.sub >/dev/null; "
    'for i in $(seq 300); do test "$(condor_q -constraint \'Probe == "run"\' -af JobStatus)" = 2 && break; sleep 0.1; done; '
    + _RUNS,
    "NEGOTIATOR_SLOT_CONSTRAINT": _RUNS,
    "condor_submit, requirements": _RUNS,
}
#: A word behind an expression.
_REST = " junk"


def lines(probe: str) -> tuple[str, str | None]:
    """The probe, and the same with a word behind the expression; None where it is in a file."""

    def filled(rest: str) -> str:
        words = {"VALUE": _VALUE + ("" if "probe.py" in probe else rest), "OLD": _OLD, "NEW": _NEW, "REST": rest}
        if "probe.py" not in probe:
            words |= {"OLD": _OLD + rest, "NEW": _NEW + rest}
        text = probe
        for word, stands_for in words.items():
            text = text.replace(word, stands_for)
        return text

    plain, with_rest = filled(""), filled(_REST)
    return plain, with_rest if with_rest != plain else None


def answers(directory: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str, str | None]]:
    """Each place, what its probe prints, and what it prints with a word behind the expression."""
    for name, text in FILES.items():
        (directory / name).write_text(text)

    def shell(line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line], env=env, cwd=directory, capture_output=True, text=True, check=False, timeout=300
        )
        return done.stdout.strip()

    for line in SETUP:
        shell(line)
    for place, probe in PROBES.items():
        plain, with_rest = lines(probe)
        yield place, shell(plain), None if with_rest is None else shell(with_rest)


if __name__ == "__main__":
    for place, told, rest in answers(Path.cwd(), dict(os.environ)):
        print(json.dumps({"place": place, "told": told, "rest": rest}), flush=True)
