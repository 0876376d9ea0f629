"""Whether the site's search leads to the pages that answer: ``make docs`` looks at the index that was built.

Words of a question are looked for as the page's script does it: each as it stands or as the beginning of a longer one,
titles more than text, and all of it times the page's boost.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

#: What people ask, and the page that is to be among the first three.
QUESTIONS = {
    "why is my job held": "users/held.html",
    "hold code 34": "reference/hold-codes.html",
    "why does my job wait": "users/waiting.html",
    "first job": "users/first-job.html",
    "request memory": "users/memory-and-time.html",
    "dag": "users/dags.html",
    "group quota": "examples/quotas-and-groups.html",
    "owner keyboard desktop": "examples/desktop.html",
    "defragmentation": "examples/defragmentation.html",
    "coming from htcondor": "guides/coming-from-htcondor.html",
    "docker": "guides/docker.html",
    "transfer output files": "users/files.html",
}
_TITLE, _SHOWN = 10.0, 3


def best(index: list[dict[str, object]], question: str) -> list[str]:
    """The pages that a question finds, the best first."""
    words = [
        word for word in re.findall(r"\w+", question.lower()) if len(word) > 2 and word not in ("why", "the", "does")
    ]
    scores: dict[str, float] = defaultdict(float)
    for section in index:
        title, text = str(section["title"]).lower(), str(section["text"]).lower()
        found = [(len(re.findall(rf"\b{word}", title)), len(re.findall(rf"\b{word}", text))) for word in words]
        score = sum(_TITLE * bool(in_title) + min(in_text, 5) for in_title, in_text in found)
        score *= sum(bool(any(one)) for one in found) / len(words)
        page = str(section["location"]).partition("#")[0]
        scores[page] = max(scores[page], score * float(str(section.get("boost", 1.0))))
    return sorted((page for page in scores if scores[page]), key=lambda page: -scores[page])


def main(site: Path) -> None:
    """End with the questions that find something else."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {question: best(index, question)[:_SHOWN] for question in QUESTIONS}
    wrong = [
        f"{question!r} finds {found[question]}" for question, page in QUESTIONS.items() if page not in found[question]
    ]
    sys.exit("the search misleads:\n  " + "\n  ".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
