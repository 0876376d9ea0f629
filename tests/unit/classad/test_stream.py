"""Streams of ads from texts, files and pipes, in every format."""

from __future__ import annotations

import io
import os
import threading

import pytest
from slotwise.classad import ClassAd, parse_ads
from slotwise.errors import AdSyntaxError

ADS = [ClassAd('[ A = 1; B = "x y"; C = a + 1 ]'), ClassAd("[ A = 2; D = { 1, [ e = undefined ] } ]")]
TEXTS = {
    "old": "\n\n" + "\n".join(ad.print_old() for ad in ADS) + "\n\n\n",
    "new": "\n".join(repr(ad) for ad in ADS),
    "new list": "{" + ",".join(repr(ad) for ad in ADS) + "}",
    "json": "\n".join(ad.print_json() for ad in ADS),
    "json list": "[\n" + ",\n".join(ad.print_json() for ad in ADS) + "\n]\n",
    "xml": "<?xml version='1.0'?>\n<classads>\n" + "".join(ad.print_xml() for ad in ADS) + "</classads>\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_format_is_recognised_and_read(name: str) -> None:
    text = TEXTS[name]
    for source in (text, text.encode(), io.StringIO(text), io.BytesIO(text.encode())):
        assert list(parse_ads(source)) == ADS


@pytest.mark.parametrize("line", ["-----", "*** Offset = 3 Owner = x", "", "   ", "\t"])
def test_separators_of_old_ads(line: str) -> None:
    assert list(parse_ads(f"a = 1\n{line}\nb = 2\n")) == [ClassAd("[ a = 1 ]"), ClassAd("[ b = 2 ]")]


def test_comments_and_line_ends() -> None:
    assert list(parse_ads('a = "x"\r\n# note\r\nb = 2\r\n')) == [ClassAd('[ a = "x"; b = 2 ]')]


def test_strings_of_the_old_syntax_keep_backslashes() -> None:
    (ad,) = parse_ads('Dir = "c:\\dir\\"\nSay = "a \\"b\\""\nTab = "\\t"\n')
    assert ad == {"Dir": "c:\\dir\\", "Say": 'a "b"', "Tab": "\\t"}


def test_a_bad_line_is_an_error_with_its_place() -> None:
    with pytest.raises(AdSyntaxError) as caught:
        list(parse_ads("a = 1\n\nb = 2\nno attribute\n"))
    assert caught.value.line == 4
    assert "no attribute" in str(caught.value)


def test_lenient_keeps_what_came_before_a_bad_line() -> None:
    text = "a = 1\nb = \nc = 3\n\nd = 4\n"
    assert list(parse_ads(text, lenient=True)) == [ClassAd("[ a = 1 ]"), ClassAd("[ d = 4 ]")]


def test_equal_lines_in_equal_places_give_equal_ads() -> None:
    text = "a = 1\nb = x\n\na = 1\nb = y\n\nb = y\n\na = 1\nb = y\nb = 7\n"
    assert list(parse_ads(text)) == [
        {"a": 1, "b": ClassAd("[b=x]")["b"]},
        ClassAd("[a=1;b=y]"),
        ClassAd("[b=y]"),
        {"a": 1, "b": 7},
    ]


def test_old_ads_arrive_while_the_pipe_is_open() -> None:
    read_end, write_end = os.pipe()
    count = 40_000
    text = "".join(f'Number = {i}\nText = "some text of the ad"\n\n' for i in range(count)).encode()

    def write() -> None:
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(text)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        numbers = [ad["Number"] for ad in parse_ads(pipe)]
    writer.join()
    assert numbers == list(range(count))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a format"):
        list(parse_ads("a = 1", format="yaml"))  # type: ignore[arg-type]
