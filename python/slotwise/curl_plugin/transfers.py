"""Moves one file with libcurl: retries, resumes, tokens and certificates.

Retries are HTCondor's: after an error that may pass, at once, then a second later, two, three, up to 20 times. Where a
download over HTTP was cut off, the next try asks for the rest.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

import pycurl
from msgspec import Struct

from slotwise.curl_plugin import VERSION, tokens
from slotwise.curl_plugin.progress import Progress
from slotwise.curl_plugin.results import REMOTE_FILE_NOT_FOUND, WORTH_A_RETRY, Result

_CONNECT_S = 60
_MOST_RETRIES, _MOST_REDIRECTS = 20, 30
_PROTOCOLS = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS | pycurl.PROTO_FTP | pycurl.PROTO_FILE
#: A server never leads to a file of this host.
_REDIRECT_PROTOCOLS = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS | pycurl.PROTO_FTP
#: Where distributions have the certificates of authorities; the library was built for another.
_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_PARTIAL_CONTENT = 206


class Request(Struct, frozen=True):
    """A URL and the file at this host."""

    url: str
    file_name: str


class Options(Struct, frozen=True):
    """How files are moved; ``env`` has proxies, tokens and certificates."""

    upload: bool
    diagnostic: bool
    env: Mapping[str, str]
    most_retries: int = _MOST_RETRIES
    most_redirects: int = _MOST_REDIRECTS
    ignore_proxy: bool = False

    @classmethod
    def of(cls, env: Mapping[str, str], *, upload: bool, diagnostic: bool) -> Options:
        """As the variables of HTCondor's plugin say."""
        retries = env.get("CONDOR_CURL_MAX_RETRY_ATTEMPTS", env.get("CURL_MAX_RETRY_ATTEMPTS", ""))
        return cls(
            upload,
            diagnostic,
            env,
            _positive(retries) or _MOST_RETRIES,
            _positive(env.get("CURL_MAX_REDIRS", "")) or _MOST_REDIRECTS,
            _positive(env.get("CURL_IGNORE_HTTP_PROXY", "")) > 0,
        )


def _positive(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


def complain(text: str) -> None:
    """Say something on standard error, which the starter logs."""
    sys.stderr.write(f"{text}\n")


def move(request: Request, options: Options) -> Result:
    """Move one file, with all its tries."""
    name, url = tokens.split(_plain(request.url))
    result = Result(request.url, request.file_name, options.upload, socket.gethostname(), started=int(time.time()))
    try:
        token = tokens.token_for(name, url, options.env)
    except tokens.TokenError as error:
        result.error = str(error)
        complain(f"Error: {error}.")
    else:
        _try_often(url, token, request.file_name, options, result)
    result.ended = int(time.time())
    return result


def _plain(url: str) -> str:
    """WebDAV is HTTP here."""
    for method, plain in (("davs", "https"), ("dav", "http")):
        if url.lower().startswith(f"{method}://"):
            return plain + url[len(method) :]
    return url


def _try_often(url: str, token: str, file_name: str, options: Options, result: Result) -> None:
    try:
        if options.upload and url.lower().startswith("file://"):
            Path(unquote(url[len("file://") :])).parent.mkdir(parents=True, exist_ok=True)
        with open(file_name, "rb" if options.upload else "wb") as file:
            transfer = _Transfer(url, token, file, options, result)
            for retry in range(options.most_retries + 1):
                time.sleep(retry)
                if transfer.attempt() not in WORTH_A_RETRY:
                    return
    except OSError as error:
        result.success, result.tries = False, result.tries + 1
        name = error.filename or file_name
        result.error = f"could not open local file {name}, error {error.errno} ({error.strerror})"
        complain(f"ERROR: {result.error}")


class _Transfer:
    """The requests for one file. The file of a download has what former requests have brought."""

    def __init__(self, url: str, token: str, file: BinaryIO, options: Options, result: Result) -> None:
        self._url = url
        self._token = token
        self._file = file
        self._options = options
        self._result = result
        self._progress = Progress()
        self._began = 0.0
        #: Of the answer that is being read, and whether it shall be the rest of the file.
        self._status = 0
        self._resumes = False
        #: The server's name for the state of the file whose beginning has come.
        self._tag = ""

    def attempt(self) -> int:
        """Perform one request; libcurl's code."""
        self._progress, self._began, self._status = Progress(), time.monotonic(), 0
        curl = pycurl.Curl()
        self._set_options(curl)
        self._result.tries += 1
        code, message = 0, ""
        try:
            curl.perform()
        except pycurl.error as error:
            code, message = int(error.args[0]), curl.errstr() or str(error)
        if not code and curl.getinfo(pycurl.RESPONSE_CODE) in (301, 302) and not curl.getinfo(pycurl.REDIRECT_URL):
            # A redirection that does not say where to is a success for libcurl.
            code, message = REMOTE_FILE_NOT_FOUND, "The URL you requested could not be found."
        self._count(curl, code, message)
        if code and self._options.diagnostic:
            complain(f"curl_easy_perform returned CURLcode {code}: {message}")
        curl.close()
        return code

    def _count(self, curl: pycurl.Curl, code: int, message: str) -> None:
        result = self._result
        result.total_bytes += int(curl.getinfo(pycurl.SIZE_DOWNLOAD) or curl.getinfo(pycurl.SIZE_UPLOAD))
        result.connection_s += curl.getinfo(pycurl.TOTAL_TIME) - curl.getinfo(pycurl.CONNECT_TIME)
        result.http_status = curl.getinfo(pycurl.RESPONSE_CODE)
        if code:
            result.failed(code, message)
        else:
            result.success, result.code, result.error = True, 0, ""
            result.file_bytes = self._file.tell()

    def _set_options(self, curl: pycurl.Curl) -> None:
        options = self._options
        curl.setopt(pycurl.URL, self._url)
        curl.setopt(pycurl.PROTOCOLS, _PROTOCOLS)
        curl.setopt(pycurl.REDIR_PROTOCOLS, _REDIRECT_PROTOCOLS)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT, _CONNECT_S)
        curl.setopt(pycurl.FAILONERROR, 1)
        curl.setopt(pycurl.FOLLOWLOCATION, 1)
        curl.setopt(pycurl.MAXREDIRS, options.most_redirects)
        curl.setopt(pycurl.USERAGENT, f"condor_curl_plugin/{VERSION}")
        curl.setopt(pycurl.NOPROGRESS, 0)
        curl.setopt(pycurl.XFERINFOFUNCTION, self._look)
        curl.setopt(pycurl.HEADERFUNCTION, self._header)
        if options.diagnostic:
            curl.setopt(pycurl.VERBOSE, 1)
        if options.ignore_proxy and self._url.lower().startswith("http://"):
            curl.setopt(pycurl.PROXY, "")
        self._trust(curl)
        headers = [f"Authorization: Bearer {self._token}"] if self._token else []
        if options.upload:
            self._file.seek(0)
            curl.setopt(pycurl.UPLOAD, 1)
            curl.setopt(pycurl.READFUNCTION, self._file.read)
            curl.setopt(pycurl.SEEKFUNCTION, self._seek)
            curl.setopt(pycurl.INFILESIZE_LARGE, os.fstat(self._file.fileno()).st_size)
        else:
            headers += self._ask_for_rest(curl)
            curl.setopt(pycurl.WRITEFUNCTION, self._write)
        if headers:
            curl.setopt(pycurl.HTTPHEADER, headers)

    def _trust(self, curl: pycurl.Curl) -> None:
        """Whose certificates are believed: X509_CERT_DIR as in HTCondor, OpenSSL's variables, or the host's."""
        env = self._options.env
        if directory := env.get("X509_CERT_DIR") or env.get("SSL_CERT_DIR"):
            curl.setopt(pycurl.CAPATH, directory)
        named = env.get("CURL_CA_BUNDLE") or env.get("SSL_CERT_FILE")
        if place := named or next((place for place in _AUTHORITIES if Path(place).exists()), None):
            curl.setopt(pycurl.CAINFO, place)

    def _ask_for_rest(self, curl: pycurl.Curl) -> list[str]:
        """Ask for the rest of a file that was cut off, or for all of it. What a cache cut off may be cut off there.

        :returns: a header that asks for all of it if it is not the same file any more.
        """
        there = self._file.tell()
        over_http = self._url.lower().startswith(("http://", "https://"))
        self._resumes = there > 0 and over_http and self._result.cache.upper() != "HIT"
        if not self._resumes:
            self._begin_anew()
            return []
        curl.setopt(pycurl.RANGE, f"{there}-")
        return [f"If-Range: {self._tag}"] if self._tag.startswith('"') else []

    def _begin_anew(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def _write(self, data: bytes) -> int:
        if self._resumes and self._status != _PARTIAL_CONTENT:
            self._begin_anew()  # the server knows no ranges, or the file has changed: this is the whole of it
        self._resumes = False
        return self._file.write(data)

    def _seek(self, offset: int, origin: int) -> int:
        self._file.seek(offset, origin)
        return 0

    def _look(self, _total: int, received: int, _upload_total: int, sent: int) -> int:
        return int(self._progress.is_stalled(time.monotonic() - self._began, received, sent))

    def _header(self, line: bytes) -> None:
        text = line.decode("latin-1").strip()
        name, _, value = text.partition(":")
        words = value.split()
        if name.startswith("HTTP/"):
            self._status = _positive(text.split()[1]) if " " in text else 0
        elif name.lower() == "etag":
            self._tag = value.strip()
        elif name.lower() == "x-cache" and words:
            self._result.cache = words[0]
        elif name.lower() == "via" and len(words) > 1:
            self._result.cache_host = words[1]
