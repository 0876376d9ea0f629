"""``ClassAd`` as a mapping, and its values in Python."""

from __future__ import annotations

import copy
import pickle
from collections.abc import MutableMapping
from datetime import UTC, datetime, timedelta

import pytest
from slotwise.classad import ERROR, UNDEFINED, ClassAd, ExprTree
from slotwise.errors import AdSyntaxError


def test_names_are_compared_without_case_and_keep_their_first_spelling() -> None:
    ad = ClassAd({"Memory": 1})
    ad["MEMORY"] = 2
    assert ad["memory"] == 2
    assert list(ad) == ["Memory"]
    assert "mEmOrY" in ad


def test_order_is_that_of_insertion() -> None:
    ad = ClassAd("[ z = 1; a = 2; m = 3 ]")
    del ad["a"]
    ad["a"] = 4
    assert ad.keys() == ["z", "m", "a"]
    assert repr(ad) == "[ a = 4; m = 3; z = 1 ]"


def test_it_is_a_mutable_mapping() -> None:
    ad = ClassAd()
    assert isinstance(ad, MutableMapping)
    ad.update({"a": 1}, b=2)
    assert ad.setdefault("a", 9) == 1
    assert ad.setdefault("c") is UNDEFINED
    assert ad.pop("a") == 1
    assert ad.pop("a", "gone") == "gone"
    assert ad.popitem() == ("c", UNDEFINED)
    assert ad == {"B": 2}
    assert dict(ad) == {"b": 2}
    with pytest.raises(KeyError):
        ad["nosuch"]


def test_copies_are_independent() -> None:
    ad = ClassAd("[ a = 1; n = [ b = 2 ] ]")
    for other in (ad.copy(), copy.copy(ad), copy.deepcopy(ad), pickle.loads(pickle.dumps(ad)), ClassAd(ad)):
        other["a"] = 5
        assert ad["a"] == 1
        assert other["n"] == ad["n"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "undefined"),
        (UNDEFINED, "undefined"),
        (ERROR, "error"),
        (True, "true"),
        (-5, "-5"),
        (0.5, "5.000000000000000E-01"),
        ('a"b', '"a\\"b"'),
        ([1, "a", [True]], '{ 1,"a",{ true } }'),
        ({"x": 1}, "[ x = 1 ]"),
        (datetime(2026, 1, 2, tzinfo=UTC), 'absTime("2026-01-02T00:00:00-00:00")'),
        (timedelta(hours=1), 'relTime("01:00:00")'),
        (ExprTree("a + 1"), "a + 1"),
    ],
)
def test_python_values_become_literals(value: object, text: str) -> None:
    assert str(ClassAd({"v": value}).lookup("v")) == text


def test_literals_come_back_as_values_and_the_rest_as_expressions() -> None:
    ad = ClassAd(
        '[ i = 1; r = 1.5; s = "x"; l = { 1, a }; n = [ b = 2 ]; e = a + 1; t = absTime("2026-01-02T00:00:00Z") ]'
    )
    assert (ad["i"], ad["r"], ad["s"]) == (1, 1.5, "x")
    assert ad["l"] == [1, ExprTree("a")]
    nested = ad["n"]
    assert isinstance(nested, ClassAd) and nested["B"] == 2
    assert ad["e"] == ExprTree("a + 1")
    assert ad["t"] == datetime(2026, 1, 2, tzinfo=UTC)


def test_values_out_of_reach_are_refused() -> None:
    with pytest.raises(OverflowError):
        ClassAd({"big": 2**63})
    with pytest.raises(TypeError, match="object cannot be a ClassAd value"):
        ClassAd({"odd": object()})


def test_bytes_that_are_no_utf8_survive() -> None:
    ad = ClassAd('[ s = "\\377" ]')
    assert ad["s"] == "\udcff"
    assert ClassAd({"s": ad["s"]}) == ad


def test_eval_looks_in_the_ad_and_then_in_the_target() -> None:
    ad = ClassAd("[ a = 3; b = a * 2; l = { a, b }; m = TARGET.x + a ]")
    assert ad.eval("b") == 6
    assert ad.eval("l") == [3, 6]
    assert ad.eval("m", ClassAd("[ x = 4 ]")) == 7
    assert ad.eval("m") is UNDEFINED
    assert ad.eval("nosuch") is UNDEFINED


def test_time_arrives_as_an_argument() -> None:
    assert ExprTree("time()").eval(now=17) == 17
    assert ClassAd("[ age = CurrentTime - 10 ]").eval("age", now=50) == 40


def test_undefined_and_error_are_values_and_false() -> None:
    assert ExprTree("nosuch").eval(ClassAd()) is UNDEFINED
    assert ExprTree("1/0").eval() is ERROR
    assert not UNDEFINED
    assert not ERROR
    assert repr(ERROR) == "ERROR"
    assert pickle.loads(pickle.dumps(ERROR)) is ERROR


def test_an_evaluation_that_breaks_off_raises() -> None:
    with pytest.raises(ValueError, match="cannot be evaluated"):
        ExprTree("random(0)").eval()


def test_syntax_errors_show_the_place_and_a_remedy() -> None:
    with pytest.raises(AdSyntaxError) as caught:
        ExprTree("Memory >\n  (Cpus + ")
    error = caught.value
    assert (error.line, error.column) == (2, 11)
    assert "^" in str(error)
    assert "CA201" in str(error)
    assert error.hint
    with pytest.raises(AdSyntaxError):
        ClassAd("[ a = ]")


def test_the_printed_forms() -> None:
    ad = ClassAd('[ b = 1.5; A = "x\\ny"; e = a =?= 1 ]')
    assert ad.print_old() == 'A = "x\ny"\nb = 1.5\ne = a =?= 1\n'
    assert ad.printJson() == ad.print_json()
    assert '"e": "\\/Expr(a is 1)\\/"' in ad.print_json()
    assert ad.print_xml(indent=False).startswith('<c><a n="A"><s>x\\ny</s></a>')
    assert str(ad).startswith("\n    [\n        A = ")
