"""Random submit requirements with submissions, and what HTCondor's schedd said (conformance/requirements.jsonl).

``python -m tests.support.requirement_cases DIRECTORY COUNT SEED`` writes cases for a pool's schedd to answer: N.config
and N.sub for each, and a script that has them answered into N.out and N.err; the schedd reads ``rules.config`` in the
same directory (LOCAL_CONFIG_FILE). With ``record DIRECTORY`` the answers are printed as lines of JSON.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

EXPRESSIONS = (
    *("RequestMemory > 100", "RequestMemory >= 300", "RequestCpus < 3", "Size < 5", "ProcId < 1", "Nope > 1"),
    *("true", "false", "1", "0", "2.5", "0.0", '"true"', '""', "undefined", "error", "{ true }", "[ a = 1 ]"),
    *("JobUniverse == 5", "TARGET.JobUniverse == 5", "MY.JobUniverse == 5", "JobUniverse =!= 5"),
    'MY.MyType == "Scheduler"',
    *('MyType == "Scheduler"', 'TARGET.MyType == "Job"', "Project =!= undefined", 'Project == "physics"'),
    *("stringListMember(Project, \"physics,chemistry\")", "isUndefined(Nope)", "Nope || RequestMemory > 100"),
    *("RequestMemory > 100 && Nope", "Size > 0 || RequestCpus > 1", "!WantIt", "WantIt", "WantIt =?= true"),
    "size(Name)",
    *("ifThenElse(WantIt, RequestMemory > 300, true)", "RequestMemory / 0", "regexp(\"^a\", Project)", "TARGET.Nope"),
    *("Double > 4", "strcat(Project, 1) == \"physics1\"", "JobStatus == 1", "JobStatus == 5", "TotalSubmitProcs < 3"),
)  # fmt: skip
REASONS = (
    *('"short"', 'strcat("asked for ", RequestMemory, " only")', "RequestMemory", "undefined", "error", "Nope", '""'),
    *('strcat(Project, " is not known")', "Project", 'strcat("job ", ProcId)', '"two words; and|bars"', "true"),
    *('strcat("of ", MY.MyType)', "TARGET.Project", '"100%d of %s"', '"first\\nsecond"'),
)  # fmt: skip
WARNINGS = ("true", "true", "false", None, None, "1", "1 == 1", "0")
JOB = (
    *("request_memory = 50", "request_memory = 200", "request_memory = 400", "request_cpus = 2", "request_cpus = 4"),
    *("+Size = 3", "+Size = 7", "+Size = $(Process) * 4", "+Project = \"physics\"", "+Project = \"art\""),
    "+WantIt = true",
    *("+WantIt = false", "+Double = Size * 2", "request_memory = 100 + 200 * $(Process)", "+Project = 3"),
)  # fmt: skip


def case(rng: random.Random) -> tuple[str, str]:
    """Knobs, and a submission."""
    names = [f"R{number}" for number in range(rng.choice((1, 1, 2, 2, 3, 4)))]
    lines = []
    for name in names:
        knob = f"SUBMIT_REQUIREMENT_{name}"
        lines.append(f"{knob} = {rng.choice(EXPRESSIONS)}")
        if rng.random() < 0.7:
            lines.append(f"{knob}_REASON = {rng.choice(REASONS)}")
        if (warns := rng.choice(WARNINGS)) is not None:
            lines.append(f"{knob}_IS_WARNING = {warns}")
    listed = [*names, "Missing"] if rng.random() < 0.1 else names
    rng.shuffle(listed)
    lines.insert(0, f"SUBMIT_REQUIREMENT_NAMES = {rng.choice((' ', ', ')).join(listed)}")
    chosen = {line.partition("=")[0]: line for line in rng.sample(JOB, rng.randint(1, 5))}
    job = ["executable = /bin/true", *chosen.values(), f"queue {rng.choice((1, 1, 2, 3))}"]
    return "\n".join(lines) + "\n", "\n".join(job) + "\n"


_ANSWER = """cd "$(dirname "$0")" || exit 1
for config in [0-9]*.config; do
    n=${config%.config}
    cp "$config" rules.config
    condor_reconfig -schedd > /dev/null
    sleep 0.5
    condor_submit "$n.sub" > "$n.out" 2> "$n.err" || echo "status $?" >> "$n.err"
    condor_rm -all > /dev/null 2>&1
done
"""


def main(words: list[str]) -> None:
    """Write cases, or record the answers to them."""
    if words[0] == "record":
        for file in sorted(Path(words[1]).glob("[0-9]*.config"), key=lambda path: int(path.stem)):
            told = {
                "config": file.read_text(),
                "submit": file.with_suffix(".sub").read_text(),
                "errors": file.with_suffix(".err").read_text(),
            }
            print(json.dumps(told))
        return
    directory, rng = Path(words[0]), random.Random(int(words[2]))
    for number in range(int(words[1])):
        config, submission = case(rng)
        (directory / f"{number}.config").write_text(config)
        (directory / f"{number}.sub").write_text(submission)
    (directory / "answer.sh").write_text(_ANSWER)


if __name__ == "__main__":
    main(sys.argv[1:])
