"""How pages are read that tests run."""

from __future__ import annotations

import pytest

from tests.support.guide import commands_of, missing_line

PAGE = """
Words.

```console
$ cat > a <<'END'
$ not a command
END
$ cat a
$ not a command
$ true && \\
  echo x
x
```

```console
# not run: needs another host
$ rm -rf /
```
"""


def test_commands_have_their_here_documents_and_what_they_print() -> None:
    found = commands_of(PAGE)
    assert [one.text for one in found] == [
        "cat > a <<'END'\n$ not a command\nEND",
        "cat a",
        "not a command",
        "true && \\\n  echo x",
    ]
    assert [one.printed for one in found] == [[], [], [], ["x"]]


@pytest.mark.parametrize(
    ("wanted", "absent"),
    [
        (["one  two", "three"], None),
        (["one ...", "three"], None),
        (["...", "three"], None),
        (["one two", "..."], None),
        (["one two"], "(nothing more than) one two"),
        (["three"], "three"),
        (["...", "one two", "four"], "four"),
        (["one tw.", "three"], "one tw."),
    ],
)
def test_lines_of_a_page_are_found_at_their_place(wanted: list[str], absent: str | None) -> None:
    assert missing_line("one two\n\n three\n", wanted) == absent
