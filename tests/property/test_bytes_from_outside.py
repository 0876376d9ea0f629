"""Parsers of what others send, with bytes that nobody means well: they answer or refuse, and no more.

Parsers in Rust have fuzz targets (``rust/fuzz``); those of proxies and certificates have tests beside theirs.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.classad.stream import parse_ads
from slotwise.cli.pool.node.join_token import JoinToken
from slotwise.collector.enrolment import Enrolments, asked
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.execution.child_programs import Answer
from slotwise.model.pool_host import host_name, roles_of
from slotwise.shared_port.outward import _caller
from slotwise.shared_port.request import LONGEST, read_request, status_of
from slotwise.starter.convert import shadow_report
from slotwise.starter.io_proxy.protocol import quoted, words
from slotwise.starter.io_proxy.session import Session
from slotwise.starter.messages import RemoteIo, RemoteIoDone
from slotwise.starter.runtimes import apptainer
from slotwise.starter.runtimes.docker import images, launch, state
from slotwise.starter.transfer.plugin_results import PluginResults, TransferClass
from slotwise.submit.parsing import parse
from slotwise.transfer import checkpoint_manifest
from slotwise.web.job_files import Archive
from slotwise.web.submission import submission
from slotwise.wire import contact
from slotwise.wire.gen import schedd_pb2

#: Texts and bytes near what is meant, with digits that are none of ASCII's, halves of surrogates, and long numbers.
_ODD = st.sampled_from(["\u00b2", "\u0663", "\udc80", "\0", "\n", "\r\n\r\n", "9" * 5000, "-1", "1e999", " ", ":", "?"])
_TEXTS = st.one_of(st.text(), st.lists(st.one_of(_ODD, st.text(max_size=5)), max_size=6).map("".join))
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(10**400)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                ["Status", "ExitCode", "Pid", "Error", "80/tcp", "HostPort", "networks", "host", "version"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
_DEEP = st.sampled_from(["[" * 100_000, '{"State":' * 100_000, '{"ExitCode": ' + "9" * 5000 + "}"])


def _near(*meant: str) -> st.SearchStrategy[str]:
    """What is meant with something odd put into it, or over a part of it."""
    return st.builds(
        lambda text, at, over, odd: text[:at] + odd + text[at + over :],
        st.sampled_from(meant), st.integers(0, 60), st.integers(0, 8), st.one_of(_ODD, _TEXTS),
    )  # fmt: skip


# ---- shared port, broker and addresses


@given(st.one_of(_TEXTS, _near("<10.0.0.1:9618?sock=startd&key=abc>", "[::1]:9618", "ep:1?ccbid=cm:9618%23ab&alias=x")))
def test_an_address_is_one_or_none(text: str) -> None:
    found = contact.parse(text)
    if found is not None:
        assert 0 <= found.port <= 65535
        assert contact.parse(str(found)) is not None
        way = contact.way_to(str(found))
        assert not set(way.target + way.via) & set("\r\n\0 ")
    contact.with_port(text, lambda: 9618)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=100).map(lambda rest: b"CONNECT " + rest),
        _near("CONNECT startd.here.slotwise:1 HTTP/1.1\r\n\r\n").map(lambda text: text.encode("utf-8", "replace")),
    )
)
def test_the_beginning_of_a_connection_is_asked_or_refused(data: bytes) -> None:
    found = read_request(data)
    if found is not None and found.asked is not None:
        assert found.status == 200 and not found.asked.secret.strip("0123456789abcdef")
    assert read_request(b"CONNECT " + b"x" * LONGEST + data) is not None
    status = status_of(b"HTTP/1.1 " + data)
    assert status is None or status >= 0


@given(st.one_of(_TEXTS, _near("ipv4:10.0.0.1:9618", "ipv6:%5B::1%5D:5")))
def test_a_caller_that_a_broker_names_is_an_address(text: str) -> None:
    with contextlib.suppress(OSError):
        assert _caller(text, "192.0.2.1").host


# ---- hosts that ask for a place


@given(st.one_of(_TEXTS, _near("ep1.example.org", "AP.example.org.")), st.lists(_TEXTS, max_size=3), _TEXTS, _TEXTS)
def test_what_a_host_asks_for_is_checked_or_refused(name: str, roles: list[str], digest: str, version: str) -> None:
    with contextlib.suppress(SlotwiseError):
        assert host_name(name).isascii()
    with contextlib.suppress(SlotwiseError):
        assert set(roles_of(roles)) <= {"cm", "ap", "ep", "web"}
    with contextlib.suppress(SlotwiseError):
        made = asked(name, roles, "key", "", digest, version)
        assert made.name.isascii() and made.version.isascii()
    with pytest.raises(NotFoundError) as refused:
        Enrolments().find(name + digest, 0.0)
    assert len(str(refused.value)) < 400


# ---- jobs at their chirp port


class _Job:
    """A job whose requests become messages, as those of a starter do."""

    may_use_files = may_change = may_delay = True
    secret = "secret"

    def __init__(self) -> None:
        self.large = asyncio.Semaphore(2)
        self.unsayable: list[RemoteIo] = []

    async def ask(self, request: RemoteIo) -> RemoteIoDone:
        try:
            shadow_report("run", request)
        except ValueError:
            # It would stay open, and fail with every stream to come.
            self.unsayable.append(request)
        return RemoteIoDone(data=b"1 2 3 4 5 6 7 8 9 10 11 12 13\n")

    def delay(self, name: str, text: str) -> int:
        return 0

    def delayed(self, name: str) -> str | None:
        return name


class _Writer:
    def __init__(self) -> None:
        self.said = b""

    def write(self, data: bytes) -> None:
        self.said += data

    async def drain(self) -> None:
        return None


_COMMANDS = [
    "open", "close", "read", "pread", "write", "pwrite", "lseek", "fsync", "getfile", "putfile", "stat", "unlink",
    "rename", "mkdir", "rmdir", "getdir", "ulog", "get_job_attr", "set_job_attr", "get_job_attr_delayed", "cookie",
]  # fmt: skip
_ARGUMENTS = st.one_of(
    st.sampled_from(
        ["3", "-1", "0", "r", "w", "rwatcxs", str(10**30), str(-(10**30)), "9" * 5000, "1_0", "\u00b2", "2"]
    ),
    _TEXTS,
)
_LINES = st.one_of(
    st.binary(max_size=80),
    st.builds(lambda name, rest: " ".join([name, *map(quoted, rest)]).encode("utf-8", "surrogatepass"),
              st.sampled_from(_COMMANDS), st.lists(_ARGUMENTS, max_size=3)),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(_LINES, max_size=8))
def test_a_session_answers_whatever_a_job_says(lines: list[bytes]) -> None:
    job = _Job()

    async def talk() -> bytes:
        reader, writer = asyncio.StreamReader(), _Writer()
        reader.feed_data(b"".join(line + b"\n" for line in (b"open f rwc 0", *lines)))
        reader.feed_eof()
        said: Any = writer
        await Session(job, reader, said).serve()
        return writer.said

    assert asyncio.run(talk()).startswith(b"3\n")
    assert not job.unsayable


@given(_TEXTS)
def test_a_word_is_the_same_word_when_it_is_read(word: str) -> None:
    if word and "\udc80" not in word and word.isprintable():
        assert words(quoted(word).encode()) == [word]


# ---- what Docker says


@given(st.one_of(_TEXTS, _DEEP, _JSON.map(json.dumps), st.just("1..2B / 3B"), st.just("9" * 400 + "B / 1B")))
def test_what_docker_says_is_understood_or_nothing(text: str) -> None:
    ended = state.parse_state(text)
    assert ended is None or isinstance(ended.exit_code, int)
    state.parse_info(text)
    state.parse_traffic(text)
    state.host_ports(text, [("web", 80)])
    state.client_problem(text)
    images.parse_listing(text.splitlines(), images.parse_details(f"{text}\nid {text} now"))
    found = state.json_object(text)
    if found is not None:
        state.counted_traffic(found)


@given(st.one_of(st.binary(), _TEXTS.map(lambda text: b"HTTP/1.1 " + text.encode("utf-8", "replace"))))
def test_an_answer_of_the_daemon_is_one_or_an_error(data: bytes) -> None:
    with contextlib.suppress(OSError):
        status, body = launch.answer(data)
        assert 0 <= status <= 999
        launch.message(body)


# ---- what transfer plugins write


@given(
    st.one_of(
        st.binary(),
        _near("[ TransferSuccess = true; TransferTotalBytes = 12; TransferErrorData = { [ ] } ]").map(
            lambda text: text.encode("utf-8", "replace")
        ),
        st.sampled_from([b"[A=" * 100_000, b"A = " + b"{" * 100_000, b"TransferTotalBytes = " + b"9" * 5000]),
    )
)
def test_what_a_plugin_says_is_ads_or_nothing(data: bytes) -> None:
    results = PluginResults(TransferClass.INPUT)
    with contextlib.suppress(ValueError):
        for ad in parse_ads(data):
            results.add_file(ad, 0)
    results.report()


# ---- the web service


@settings(deadline=None)
@given(
    st.one_of(
        st.dictionaries(st.sampled_from(["text", "description", "count", "x"]), _JSON, max_size=3),
        st.builds(lambda text: {"text": text}, _near("executable = /bin/true\ninitialdir = /\nqueue 2 x in (a, b)\n")),
        st.builds(
            lambda name, value: {"description": {"executable": "/bin/true", "initialdir": "/", name: value}},
            st.one_of(_TEXTS, st.sampled_from(["arguments", "+A", "my.B", "request_cpus", "requirements"])),
            _JSON,
        ),
    )
)
def test_a_submission_is_taken_or_refused_with_a_reason(body: dict[str, object]) -> None:
    try:
        taken, _ = submission(body)
    except SlotwiseError as error:
        assert str(error)
        return
    if isinstance(taken, str):
        with contextlib.suppress(SlotwiseError):
            parse(taken, elsewhere=True)


# ---- checkpoints, join tokens, and what jobs left


_LINE = st.builds(
    lambda digest, blank, name: digest + blank + name,
    st.one_of(_TEXTS, st.just("a" * 64)),
    st.sampled_from([" *", " ", "", "  ", "\t"]),
    st.one_of(_TEXTS, st.sampled_from(["../x", "/etc/passwd", "a/../../b", "a/b", ".", "", "x ", "d/" * 5000])),
)


@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(_LINE, max_size=6).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogateescape")),
    )
)
def test_a_manifest_of_a_checkpoint_lists_files_below_the_jobs_directory(text: bytes) -> None:
    assert checkpoint_manifest.is_sound_text(text, "_condor_checkpoint_MANIFEST.0001") in (True, False)
    try:
        found = checkpoint_manifest.files_in(text)
    except UsageError as error:
        assert "the manifest lists" in str(error)
        return
    for _, name in found:
        parts = name.split("/")
        assert name and not name.startswith("/") and ".." not in parts and not set(name) & set("\0\r\n")


@given(
    st.one_of(
        _TEXTS,
        _TEXTS.map(lambda text: "slotwise-join-" + text),
        st.one_of(_JSON.map(json.dumps), _DEEP).map(
            lambda text: "slotwise-join-" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        ),
    )
)
def test_a_join_token_is_one_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        found = JoinToken.of_text(text)
        assert JoinToken.of_text(found.text()) == found


#: Names as file systems have them: any bytes but two.
_NAMES = st.one_of(
    st.binary(min_size=1, max_size=20).map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"_")),
    st.sampled_from(
        [b"\xff\xfe", b"\xfe\xff", b"%FF%FE", b"a" * 4000, "\u202egnp.exe".encode(), b"con", b"a\\..\\b", b"same"]
    ),
)


@pytest.mark.filterwarnings("error:Duplicate name")
@given(
    st.lists(st.tuples(_NAMES, st.booleans(), st.binary(max_size=50), st.integers(0, 2**32 - 1)), max_size=6),
    st.booleans(),
)
def test_what_a_job_left_is_an_archive_of_plain_files(files: list[tuple[bytes, bool, bytes, int]], many: bool) -> None:
    made, text = Archive(of_many=many), b""
    for name, directory, data, mode in files:
        piece = schedd_pb2.SandboxPiece(job="1.0")
        piece.file.name, piece.file.directory, piece.file.mode, piece.file.last = name, directory, mode, True
        piece.file.data = b"" if directory else data
        text += made.add(piece)
    text += made.end()
    made_once = [each for at, each in enumerate(files) if not (each[1] and each[:2] in [one[:2] for one in files[:at]])]
    with zipfile.ZipFile(io.BytesIO(text)) as found:
        entries = found.infolist()
        assert len(set(found.namelist())) == len(entries), "no file replaces another when it is unpacked"
        for entry, (_, directory, _, _) in zip(entries, made_once, strict=True):
            kind = entry.external_attr >> 16
            assert entry.is_dir() == directory
            assert not kind & 0o7000, "no rights come with a file that is unpacked"
            assert kind & 0o170000 == (0o40000 if directory else 0o100000), "nor is it a link or a device"


@given(st.one_of(_TEXTS, st.just("\x1b[31m" * 1000)), _TEXTS)
def test_what_apptainer_says_is_lines(errors: str, output: str) -> None:
    said = apptainer._lines(Answer(255, output, errors))
    assert said and all(said)
    assert apptainer._first_line(Answer(255, output, errors)) and apptainer._last_line(Answer(255, output, errors))
