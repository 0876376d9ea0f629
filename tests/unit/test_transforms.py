"""Statements of transforms that recorded cases do not have: refusals, and what is known without HTCondor."""

from pathlib import Path

import pytest
from slotwise.classad import ClassAd, parse_ads
from slotwise.errors import ConfigError
from slotwise.transform import Row, Transforms, read_rules, rows


def apply(text: str, ad: str = '[ ProcId = 3; Foo = 1; Owner = "ann" ]', **more: object) -> ClassAd:
    done = Transforms([read_rules("t", text)]).apply(ClassAd(ad), now=1, seed=1, **more)  # type: ignore[arg-type]
    assert not done.problems, done.problems
    return done.ad


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SAT x 1", "t:1: SAT is not a valid transform keyword"),
        ("SET x", "t:1: SET needs 2 arguments"),
        ("\n\nDELETE", "t:3: DELETE needs 1 argument"),
        ("COPY /(/ x", "is not a regular expression"),
        ("COPY /a x", "is not a pattern"),
        ("DELETE /a/q", "q is not an option of a pattern"),
        ("REQUIREMENTS (((", "t:1: invalid REQUIREMENTS"),
        ("[ set_x = 1; ]", "no longer supported"),
        ("if true\nSET a 1", "endif"),
        ("else\nSET a 1", "else without matching if"),
        ("text @=end\nx", "end-of-file while scanning for '@end'"),
        ("include : /etc/passwd", "include is not allowed in a transform"),
        ("SET a-b 1", "not a valid attribute name"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_rules("t", text)
    assert why in str(refused.value)


def test_what_a_user_wrote_is_not_expanded() -> None:
    """HTCondor expands macros in the attributes of jobs, those of the schedd's configuration and environment too."""
    ad = ClassAd({"Mine": "$(SECRET) $ENV(HOME) $INT(Foo)", "Foo": 1})
    rules = 'SET A "$(MY.Mine)"\nEVALMACRO m Mine\nSET B "$(m)"\nn = $(MY.Mine)\nSET C "$(n)"\nSET D "$STRING(MY.Mine)"'
    done = Transforms([read_rules("t", rules)]).apply(ad, now=1, seed=1, variables=[("SECRET", "gold")])
    for name in "ABCD":
        assert done.ad[name] == ad["Mine"], name


@pytest.mark.parametrize(
    "text", ['a\nSET Owner "root"', 'a"\nSET Owner "root"\nSET Q "', 'a\rSET Owner "root"', "a\n@end"]
)
def test_no_text_of_a_user_is_a_statement(text: str) -> None:
    rules = (
        'SET B "$(MY.Mine)"',
        "SET B $(MY.Mine)",
        'n = $(MY.Mine)\nSET B "$(n)"',
        "t @=end\n$(MY.Mine)\n@end\nSET B $(t)",
    )
    for rule in rules:
        done = Transforms([read_rules("t", rule)]).apply(ClassAd({"Mine": text, "Owner": "ann"}), now=1, seed=1)
        assert done.ad["Owner"] == "ann" and "Q" not in done.ad
        assert "B" not in done.ad or isinstance(done.ad["B"], str)


def test_macros_of_one_transform_are_seen_by_the_next() -> None:
    first, second = read_rules("a", "x = 5"), read_rules("b", "SET A $(x)")
    assert Transforms([first, second]).apply(ClassAd(), now=1, seed=1).ad["A"] == 5


def test_a_text_keeps_its_lines() -> None:
    assert apply('t @=end\n one\n two\n@end\nSET A "$(t)"')["A"] == "one\ntwo"


def test_what_was_read_and_changed_is_told() -> None:
    rules = "REQUIREMENTS Foo == 1\nSET A $(MY.Owner)\nDEFAULT Bar 1\nEVALSET C Deep\nRENAME Gone X\n"
    ad = ClassAd('[ Foo = 1; Deep = ProcId + 1; ProcId = 2; Owner = "ann" ]')
    done = Transforms([read_rules("t", rules)]).apply(ad, now=1, seed=1)
    assert done.changed == ["A", "Bar", "C"]
    assert done.read is not None
    assert set(done.read) == {"foo", "owner", "bar", "deep", "procid", "gone"}


@pytest.mark.parametrize(
    "rule", ["EVALSET A eval(Foo)", "EVALSET A random()", "SET A $RANDOM_INTEGER(1,9)", "EVALSET A time()"]
)
def test_what_equal_ads_do_not_decide_is_told(rule: str) -> None:
    ad = ClassAd({"Foo": "ProcId"})
    assert Transforms([read_rules("t", rule)]).apply(ad, now=1, seed=1).read is None


def test_a_transform_makes_an_ad_for_each_item() -> None:
    rules = read_rules("t", 'SET A "$(X)$(Y)-$(Row)-$(Step)-$(XFormId)"\nTRANSFORM 2 X,Y from (\n1 2\n3 4\n)\n')
    found = rows(rules, None, cwd="/", environment={}, seed=1)
    assert [(row.row, row.step, row.number) for row in found] == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]
    made = [Transforms([rules]).apply(ClassAd(), now=1, seed=1, row=row).ad["A"] for row in found]
    assert made == ["12-0-0-0", "12-0-1-1", "34-1-0-2", "34-1-1-3"]
    assert rows(read_rules("t", "SET A 1\nTRANSFORM 1"), None, cwd="/", environment={}, seed=1) == [Row()]


IMAGES = Path(__file__).parents[1] / "conformance" / "image-transforms"


def test_images_are_qualified_as_by_htcondor() -> None:
    """Rules in the manner of a large site's, with back references and a bracket too many, and what HTCondor 25.14.1's
    condor_transform_ads made of seven ads, each file of rules applied to what the one before left."""
    names = ("singularity", "one", "norepo", "noreg", "registry")
    rules = [read_rules(name, (IMAGES / f"{name}.xfm").read_text()) for name in names]
    made = [Transforms(rules).apply(ad, now=1, seed=1) for ad in parse_ads((IMAGES / "ads").read_bytes())]
    assert [done.ad for done in made] == list(parse_ads((IMAGES / "out").read_bytes()))
    assert not [problem for done in made for problem in done.problems]
    told = {doubt for done in made for doubt in done.doubts}
    assert told == {'singularity, line 6: EVALMACRO IsSIF: ignored ")" behind the expression'}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'EVALSET C size("\\a")', 2),
        (r'EVALSET C "\t"', "\t"),
        (r'EVALSET C regexps("^(.)", Owner, "<\\1>")', "<a>"),
        ("EVALSET C 1 + 2 junk", 3),
        ('EVALSET C 1 + 2 "never closed', 3),
        ("EVALSET C (1 + 2)) * 5", 3),
        ("EVALMACRO M 4 5\nSET C $(M)", 4),
        (r'SET C size("\\a")', 3),
        (r'DEFAULT C size("\\a")', 3),
    ],
)
def test_evaluated_statements_read_the_new_syntax_and_stop_where_an_expression_ends(text: str, value: object) -> None:
    done = Transforms([read_rules("t", text)]).apply(ClassAd('[ Owner = "ann" ]'), now=1, seed=1)
    assert done.ad.eval("C") == value
    assert not done.problems
    assert bool(done.doubts) == ("junk" in text or "never" in text or ") *" in text or "4 5" in text)


def test_an_attribute_in_a_macro_is_in_the_syntax_that_it_is_read_in_again() -> None:
    ad = ClassAd(r'[ Requirements = regexp("\\.org$", TARGET.Machine) ]')
    done = Transforms([read_rules("t", "SET Requirements $(MY.Requirements) && true")]).apply(ad, now=1, seed=1)
    assert str(done.ad.lookup("Requirements")) == r'regexp("\\.org$",TARGET.Machine) && true'
