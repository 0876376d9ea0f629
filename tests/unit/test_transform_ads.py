"""What `transform-ads` prints, as condor_transform_ads of HTCondor 25.14 printed it."""

import io
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

ADS = 'Owner="ann"\nRequestCpus=2\nRequestMemory=5\nFoo=1\nFuu=1\nBar="x"\n\nOwner="bob"\nFoo=5\n'
RULES = r"""NAME second
REQUIREMENTS Owner == "ann"
DELETE /^F/
DELETE Nothing
COPY Nothing Else
COPY /^Zz/ Q
RENAME /^Req(.*)$/ Old\1
DEFAULT Bar "d"
DEFAULT New 1+1
EVALSET Str strcat("a","b")
EVALMACRO M 1+2
SET Item $(M)
"""


def run(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    (tmp_path / "rules").write_text(RULES)
    (tmp_path / "ads").write_text(ADS)
    (tmp_path / "config").write_text("")
    env = {"HOME": str(tmp_path), "CONDOR_CONFIG": str(tmp_path / "config")}
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(cwd=tmp_path, env=env, stdin=io.StringIO(), stdout=out, stderr=err)
    status = dispatch(["transform-ads", "-rules", "rules", *words, "ads"], inv)
    return status, out.getvalue(), err.getvalue()


def test_verbose_names_each_attribute_that_changes(tmp_path: Path) -> None:
    status, _, err = run(tmp_path, "-verbose", "-out", "made")
    assert status == 0
    assert err == (
        "# Applying transforms to ads from ads\n#   Ad 1\n#   Transform second\n"
        "DELETE Foo\nDELETE Fuu\nDELETE Nothing\nCOPY Nothing to Else\n"
        "RENAME RequestCpus to OlduestCpus\nRENAME RequestMemory to OlduestMemory\n"
        'DEFAULT Bar to "d"\nDEFAULT New to 1+1\nSET New to 1+1\n'
        'EVALSET Str to strcat("a","b")\n    SET Str to ab\n'
        "EVALMACRO M to 1+2\n          M = 3\nSET Item to 3\n"
        "#   Ad 2\n#   Transform second Skipped\n"
    )


LONG = (
    'Bar = "x"\nItem = 3\nNew = 1 + 1\nOlduestCpus = 2\nOlduestMemory = 5\nOwner = "ann"\nStr = "ab"\n\n'
    'Foo = 5\nOwner = "bob"\n\n'
)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("long", LONG),
        ("long,nosort", LONG),
        (
            "new",
            '{\n[ Bar = "x"; Item = 3; New = 1 + 1; OlduestCpus = 2; OlduestMemory = 5; Owner = "ann"; Str = "ab" ]\n'
            ',\n[ Foo = 5; Owner = "bob" ]\n}\n',
        ),
        (
            "json",
            '[\n{\n  "Bar": "x",\n  "Item": 3,\n  "New": "\\/Expr(1 + 1)\\/",\n  "OlduestCpus": 2,\n'
            '  "OlduestMemory": 5,\n  "Owner": "ann",\n  "Str": "ab"\n}\n,\n{\n  "Foo": 5,\n  "Owner": "bob"\n}\n]\n',
        ),
        (
            "xml",
            '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
            '<c>\n    <a n="Bar"><s>x</s></a>\n    <a n="Item"><i>3</i></a>\n    <a n="New"><e>1 + 1</e></a>\n'
            '    <a n="OlduestCpus"><i>2</i></a>\n    <a n="OlduestMemory"><i>5</i></a>\n'
            '    <a n="Owner"><s>ann</s></a>\n    <a n="Str"><s>ab</s></a>\n</c>\n'
            '<c>\n    <a n="Foo"><i>5</i></a>\n    <a n="Owner"><s>bob</s></a>\n</c>\n</classads>\n',
        ),
    ],
)
def test_attributes_come_in_order(tmp_path: Path, form: str, expected: str) -> None:
    assert run(tmp_path, f"-out:{form}", "-") == (0, expected, "")
