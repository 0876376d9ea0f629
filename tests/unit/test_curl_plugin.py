"""The transfer plugin of URLs: called as the starter calls it, against a real server."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd, parse_ads
from slotwise.curl_plugin.progress import Progress

from tests.support.web_files import WebFiles


@pytest.fixture
def web() -> Iterator[WebFiles]:
    with WebFiles().serving() as files:
        yield files


def call(
    place: Path, files: Mapping[str, str], *more: str, env: Mapping[str, str] | None = None, retries: int = 1
) -> tuple[int, list[dict[str, Any]]]:
    """Move URLs to (or from) files; the exit status and what the plugin says of each."""
    asked, said = place / "plugin.in", place / "plugin.out"
    ads = (ClassAd({"LocalFileName": str(place / name), "Url": url}) for url, name in files.items())
    asked.write_text("".join(f"{ad}\n" for ad in ads))
    words = [sys.executable, "-sP", "-m", "slotwise.curl_plugin", "-infile", str(asked), "-outfile", str(said)]
    settings = {"PATH": "/usr/bin:/bin", "CURL_MAX_RETRY_ATTEMPTS": str(retries), **(env or {})}
    done = subprocess.run([*words, *more], env=settings, cwd=place, check=False)
    return done.returncode, [dict(ad) for ad in parse_ads(said.read_text())]


def test_it_tells_what_it_serves() -> None:
    """As HTCondor's curl_plugin does, with the proxies that it would use."""
    words = [sys.executable, "-sP", "-m", "slotwise.curl_plugin", "-classad"]
    said = subprocess.run(words, env={"http_proxy": "http://p:1"}, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "MultipleFileSupport = true",
        'PluginVersion = "0.2"',
        'PluginType = "FileTransfer"',
        "ProtocolVersion = 4",
        'SupportedMethods = "http,https,ftp,file,dav,davs"',
        'http_proxy = "http://p:1"',
    ]


def test_a_file_comes_with_its_statistics(tmp_path: Path, web: WebFiles) -> None:
    web.files["/data"] = b"Great success!"
    web.headers["/data"] = {"X-Cache": "MISS", "Via": "1.1 cache.example (squid)"}
    status, (said,) = call(tmp_path, {f"{web.base}/data": "data"})
    assert status == 0 and (tmp_path / "data").read_bytes() == b"Great success!"
    more = said.pop("DeveloperData")
    assert more.pop("TransferLocalMachineName") == socket.gethostname()
    assert dict(more) == {
        "HttpCacheHitOrMiss": "MISS",
        "HttpCacheHost": "cache.example",
        "LibcurlReturnCode": 0,
        "TransferHTTPStatusCode": 200,
        "TransferHostName": f"localhost:{web.port}",
        "TransferTries": 1,
    }
    assert 0 < said.pop("TransferStartTime") <= said.pop("TransferEndTime") and said.pop("ConnectionTimeSeconds") >= 0
    assert said == {
        "TransferSuccess": True,
        "TransferProtocol": "http",
        "TransferType": "download",
        "TransferFileName": str(tmp_path / "data"),
        "TransferFileBytes": 14,
        "TransferTotalBytes": 14,
        "TransferUrl": f"{web.base}/data",
    }


def test_all_files_are_tried_and_sent(tmp_path: Path, web: WebFiles) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    web.statuses["/refused"] = 403
    files = {f"{web.base}/one": "one", f"{web.base}/refused": "one", f"{web.base}/gone": "gone", f"{web.base}/2": "two"}
    status, said = call(tmp_path, files, "-upload")
    assert status == 1 and [ad["TransferSuccess"] for ad in said] == [True, False, False, True]
    assert {ad["TransferType"] for ad in said} == {"upload"}
    assert web.files == {"/one": b"one", "/2": b"two"}
    assert said[2]["TransferError"] == f"could not open local file {tmp_path}/gone, error 2 (No such file or directory)"


def test_files_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("text")
    assert call(tmp_path, {f"file://{tmp_path}/here": "there"})[0] == 0
    assert (tmp_path / "there").read_text() == "text"
    status, (said,) = call(tmp_path, {f"file://{tmp_path}/sent": "here"}, "-upload")
    assert status == 0 and (tmp_path / "sent").read_text() == "text" and said["TransferProtocol"] == "file"


def closed_port() -> int:
    """A port at which nothing listens: it is bound, and stays so."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    _held.append(taken)
    return int(taken.getsockname()[1])


_held: list[socket.socket] = []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file://$(staging/match_metacompare/xac_plots.pdf", {"ErrorType": "Parameter", "PluginLaunched": True}),
        (
            "http://nonexistent.invalid/file",
            {"ErrorType": "Resolution", "FailedName": "nonexistent.invalid", "FailureType": "Unknown", "ErrorCode": 6},
        ),
        ("file:///no-such.file", {"ErrorType": "Specification", "ErrorCode": 37}),
        ("{web}/400", {"ErrorType": "Specification", "FailedServer": "{host}", "ErrorCode": 22}),
        ("{web}/403", {"ErrorType": "Authorization", "FailureType": "Authorization", "FailedServer": "{host}"}),
        ("{web}/404", {"ErrorType": "Specification", "FailedServer": "{host}"}),
        ("{web}/500", {"ErrorCode": 22}),
        ("{web}/around", {"ErrorType": "Specification", "FailedServer": "Unknown", "ErrorCode": 47}),
        ("http://127.0.0.1:{closed}/file", {"ErrorType": "Contact", "FailedServer": "Unknown", "ErrorCode": 7}),
    ],
)
def test_errors_have_htcondors_structure(tmp_path: Path, web: WebFiles, url: str, expected: dict[str, Any]) -> None:
    """The classes of HTCondor's test_curl_structured_error."""
    web.statuses = {"/400": 400, "/403": 403, "/500": 500}
    web.redirects["/around"] = "/around"
    url = url.replace("{web}", web.base).replace("{closed}", str(closed_port()))
    status, (said,) = call(tmp_path, {url: "file"})
    error = said["TransferErrorData"][0]
    host = f"localhost:{web.port}"
    assert status == 1 and said["TransferSuccess"] is False and said["TransferError"]
    assert {name: error[name] for name in expected} == {
        name: host if value == "{host}" else value for name, value in expected.items()
    }


def test_only_what_may_pass_is_tried_again(tmp_path: Path, web: WebFiles) -> None:
    _, (said,) = call(tmp_path, {f"http://127.0.0.1:{closed_port()}/file": "file"}, retries=2)
    assert said["DeveloperData"]["TransferTries"] == 3 and len(said["TransferErrorData"]) == 3
    web.statuses["/500"] = 500
    _, (said,) = call(tmp_path, {f"{web.base}/500": "file"}, retries=2)
    assert said["DeveloperData"]["TransferTries"] == 1


def test_the_rest_of_a_file_is_asked_for(tmp_path: Path, web: WebFiles) -> None:
    web.files["/data"], web.cut["/data"] = b"0123456789", [4, 3]
    web.etags["/data"] = '"one"'
    status, (said,) = call(tmp_path, {f"{web.base}/data": "data"}, retries=2)
    assert status == 0 and (tmp_path / "data").read_bytes() == b"0123456789"
    assert [(asked.range, asked.if_range) for asked in web.asked] == [
        ("", ""),
        ("bytes=4-", '"one"'),
        ("bytes=7-", '"one"'),
    ]
    assert (said["TransferFileBytes"], said["TransferTotalBytes"]) == (10, 10)
    assert said["DeveloperData"]["TransferTries"] == 3 and "TransferError" not in said


@pytest.mark.parametrize("how", ["no ranges", "changed", "cached"])
def test_a_file_begins_anew_where_its_rest_does_not_fit(tmp_path: Path, web: WebFiles, how: str) -> None:
    web.files["/data"], web.cut["/data"] = b"0123456789", [4]
    if how == "no ranges":
        web.has_ranges = False
    elif how == "changed":
        web.etags["/data"] = '"one"'
        answer = web.answer

        def answered(handler: Any) -> None:
            answer(handler)
            web.files["/data"], web.etags["/data"] = b"abcdefghij", '"two"'

        web.answer = answered  # type: ignore[method-assign]
    else:
        web.headers["/data"] = {"X-Cache": "HIT from cache.example"}
    status, _ = call(tmp_path, {f"{web.base}/data": "data"})
    assert status == 0 and (tmp_path / "data").read_bytes() == web.files["/data"]
    assert web.asked[1].range == ("" if how == "cached" else "bytes=4-")


def test_a_server_does_not_lead_to_files_of_the_host(tmp_path: Path, web: WebFiles) -> None:
    (tmp_path / "secret").write_text("secret")
    web.redirects["/data"] = f"file://{tmp_path}/secret"
    status, _ = call(tmp_path, {f"{web.base}/data": "data"})
    assert status == 1 and (tmp_path / "data").read_bytes() == b""


def test_credentials_go_with_the_urls_that_name_them(tmp_path: Path, web: WebFiles) -> None:
    web.files["/data"] = b"x"
    (tmp_path / "cern_atlas.use").write_text('{"access_token": "abc", "expires_in": 3}\n')
    (tmp_path / "plain.use").write_text("# token\n  def\n")
    (tmp_path / "odd.use").write_text("{secret\n")
    env = {"_CONDOR_CREDS": str(tmp_path), "BEARER_TOKEN": "of https alone"}
    plain = web.base.removeprefix("http://")
    for name, sent in (("cern.atlas+", "Bearer abc"), ("plain+", "Bearer def"), ("", "")):
        assert call(tmp_path, {f"{name}http://{plain}/data": "data"}, env=env)[0] == 0
        assert web.asked[-1].authorization == sent
    count = len(web.asked)
    for name, error in (
        ("odd", "Unable to parse token as JSON"),
        ("none", f"Unable to open credential file {tmp_path}/none.use: No such file or directory (errno=2)"),
        ("..%2fodd", "'..%2fodd' is not the name of a credential"),
    ):
        status, (said,) = call(tmp_path, {f"{name}+http://{plain}/data": "data"}, env=env)
        assert (status, said["TransferError"]) == (1, error)
    assert len(web.asked) == count, "nothing was asked for without its token"


def test_proxies_are_used_and_named(tmp_path: Path, web: WebFiles) -> None:
    web.files["http://far.invalid/data"] = b"by proxy"
    env = {"http_proxy": web.base}
    assert call(tmp_path, {"http://far.invalid/data": "data"}, env=env)[0] == 0
    assert (tmp_path / "data").read_bytes() == b"by proxy"
    _, (said,) = call(tmp_path, {"http://far.invalid/none": "data"}, env=env)
    assert said["TransferError"].endswith(f" (with environment: http_proxy='{web.base}', https_proxy='')")
    _, (said,) = call(tmp_path, {"http://far.invalid/data": "data"}, env={**env, "CURL_IGNORE_HTTP_PROXY": "1"})
    assert said["TransferErrorData"][0]["ErrorCode"] == 6


@pytest.mark.parametrize(
    ("looks", "stalled"),
    [
        ([(29, 0)], False),
        ([(31, 0)], True),
        ([(31, 20)], True),
        ([(31, 1024), (62, 1024)], True),
        ([(31, 1024), (62, 1059)], False),
        ([(31, 1024), (59, 1024)], False),
    ],
)
def test_a_transfer_without_progress_is_given_up(looks: list[tuple[float, int]], stalled: bool) -> None:
    for received in (True, False):
        watch = Progress()
        found = [watch.is_stalled(at, *((count, 0) if received else (0, count))) for at, count in looks]
        assert found[-1] is stalled and not any(found[:-1])
