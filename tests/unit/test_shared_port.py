"""What connections to a shared port begin with, and the broker's books."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import quote

import pytest
from slotwise.shared_port import outward
from slotwise.shared_port.listening import Caller, caller_of
from slotwise.shared_port.request import LONGEST, connect, read_request, reply, status_of
from slotwise.shared_port.waiting import MOST_OF_ADDRESS, MOST_OF_HOST, Book
from slotwise.wire import origin
from slotwise.wire.contact import Asked

HELLO = b"\x16\x03\x01 and so on"


class _Call:
    def __init__(self, peer: str, *, tls: bool) -> None:
        self._peer, self._tls = peer, tls

    def peer(self) -> str:
        return self._peer

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"transport_security_type": [b"ssl"]} if self._tls else {}


def test_whoever_names_no_daemon_means_the_default() -> None:
    request = read_request(HELLO)
    assert request is not None and request.asked is None and request.rest == HELLO and request.status == 200


def test_a_connect_names_a_daemon_and_may_be_followed_by_what_is_for_it() -> None:
    whole = connect("startd.sock.slotwise:1") + HELLO
    request = read_request(whole)
    assert request is not None and (request.asked, request.rest, request.status) == (Asked("startd"), HELLO, 200)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 30])
def test_more_is_read_while_too_little_is_known(length: int) -> None:
    assert read_request(connect("startd.sock.slotwise:1")[:length]) is None


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (connect("example.org:443"), 404),
        (connect("../x.sock.slotwise:1"), 404),
        (b"CONNECT startd.sock.slotwise:1\r\n\r\n", 400),
        (b"CONNECT a b c HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT " + b"a" * LONGEST, 400),
    ],
)
def test_other_names_are_refused(data: bytes, status: int) -> None:
    request = read_request(data)
    assert request is not None and request.status == status and request.asked is None


def test_the_answer_to_a_connect_is_read() -> None:
    assert status_of(reply(200)) == 200
    assert status_of(reply(503)) == 503
    assert status_of(reply(200)[:-1]) is None
    assert status_of(b"x" * LONGEST) == status_of(b"SSH-2.0\r\n\r\n") == 0


def _book() -> Book[str]:
    numbers = itertools.count()
    return Book(lambda: f"secret {next(numbers)}")


def test_a_caller_is_given_once_and_to_its_own_host() -> None:
    book = _book()
    name = book.wait("host", "10.0.0.1", "caller")
    assert book.take(name, "another host") is None
    assert book.take(name, "host") == "caller"
    assert book.take(name) is None and book.count == 0


def test_callers_that_wait_are_bounded_for_each_host_and_address() -> None:
    book = _book()
    names = [book.wait("host", f"10.0.{n}.1", "caller") for n in range(MOST_OF_HOST)]
    assert not book.may_wait("host", "10.9.9.9") and book.may_wait("other", "10.9.9.9")
    book.take(names[0])
    assert book.may_wait("host", "10.9.9.9")
    for n in range(MOST_OF_ADDRESS):
        book.wait(f"host {n}", "10.7.7.7", "caller")
    assert not book.may_wait("other", "10.7.7.7")


def test_who_has_the_most_callers_makes_room_for_others() -> None:
    book = _book()
    flood = [book.wait("host", f"10.0.0.{n % 2}", "caller") for n in range(MOST_OF_HOST - 2)]
    assert book.makes_room("host", "10.9.9.9") is None, "there is room"
    book.wait("host", "10.1.1.1", "caller")
    book.wait("host", "10.9.9.9", "caller")
    assert book.makes_room("host", "10.9.9.9") == flood[0]
    assert book.makes_room("other", "10.9.9.9") is None
    # Nobody makes room for the flood itself.
    assert book.makes_room("host", "10.0.0.0") is None and book.makes_room("host", "10.0.0.1") is None
    book.take(flood[0])
    assert book.may_wait("host", "10.9.9.9")


def test_callers_are_known_by_their_addresses_of_either_family() -> None:
    assert caller_of(("10.0.0.1", 5)) == caller_of(("::ffff:10.0.0.1", 5, 0, 0)) == Caller("10.0.0.1", 5)
    assert caller_of(("fe80::1%eth0", 5, 0, 2)).shown == "ipv6:[fe80::1]:5"
    for caller in (Caller("10.0.0.1", 5), Caller("fd00::1", 5)):
        assert origin.named(origin.name_for(caller.host, caller.port)) == caller.shown
    assert origin.named(b"\0something else") == ""
    longest = origin.name_for("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff", 65535, "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff")
    assert len(longest) <= 108, "the system takes no longer name of a socket"


@pytest.mark.parametrize("broker", ["192.0.2.7", "2001:db8::7"])
def test_what_a_broker_passes_on_is_known_as_that(broker: str) -> None:
    shown = f"ipv6:[{broker}]:0" if ":" in broker else f"ipv4:{broker}:0"
    for said, host in (
        ("ipv4:10.0.0.1:5", "10.0.0.1"),
        ("ipv6:[fd00::1]:5", "fd00::1"),
        ("ipv6:[::ffff:10.0.0.1]:5", "10.0.0.1"),
        # The loopback of the broker's host, or of this one if it lies.
        ("ipv4:127.0.0.1:5", broker),
        ("ipv6:[::1]:5", broker),
        ("ipv6:[::ffff:127.0.0.1]:5", broker),
        ("ipv4:0.0.0.0:5", broker),
    ):
        caller = outward._caller(said, broker)
        assert caller == Caller(host, 5, broker)
        peer = f"unix-abstract:{quote(origin.name_for(caller.host, caller.port, caller.broker)[1:].decode())}"
        call: Any = _Call(peer, tls=True)
        assert (origin.origin_of(call), origin.broker_of(call)) == (caller.shown, shown)
        own: Any = _Call(peer, tls=False)
        assert (origin.origin_of(own), origin.broker_of(own)) == ("unix:", "")
    for nobody in ("", "unix:", "ipv4:cm.example:5", "ipv4:10.0.0.1"):
        with pytest.raises(OSError, match="no caller"):
            outward._caller(nobody, broker)


def test_a_process_of_the_host_cannot_call_in_the_name_of_another_address() -> None:
    peer = f"unix-abstract:{origin.name_for('10.0.0.1', 5)[1:].decode()}"
    assert origin.origin_of(_Call(peer, tls=True)) == "ipv4:10.0.0.1:5"  # type: ignore[arg-type]
    # Sockets for users have no TLS: whoever connects there chose the name.
    assert origin.origin_of(_Call(peer, tls=False)) == "unix:"  # type: ignore[arg-type]
    assert origin.broker_of(_Call(peer, tls=True)) == ""  # type: ignore[arg-type]
    assert origin.origin_of(_Call("ipv4:10.0.0.2:5", tls=True)) == "ipv4:10.0.0.2:5"  # type: ignore[arg-type]
