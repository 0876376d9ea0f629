"""What the plugin reports of a file: HTCondor's FileTransferStats, and its TransferErrorData. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.curl_plugin import VERSION

#: libcurl's codes that are told apart, by its names without CURLE_.
URL_MALFORMAT, COULDNT_RESOLVE_PROXY, COULDNT_RESOLVE_HOST, COULDNT_CONNECT = 3, 5, 6, 7
REMOTE_ACCESS_DENIED, PARTIAL_FILE, HTTP_RETURNED_ERROR, WRITE_ERROR, READ_ERROR = 9, 18, 22, 23, 26
OPERATION_TIMEDOUT, SSL_CONNECT_ERROR, FILE_COULDNT_READ_FILE, ABORTED_BY_CALLBACK = 28, 35, 37, 42
TOO_MANY_REDIRECTS, GOT_NOTHING, SEND_ERROR, RECV_ERROR, PEER_FAILED_VERIFICATION = 47, 52, 55, 56, 60
REMOTE_FILE_NOT_FOUND = 78

#: What may go better the next time.
WORTH_A_RETRY = frozenset(
    {COULDNT_CONNECT, PARTIAL_FILE, READ_ERROR, WRITE_ERROR, OPERATION_TIMEDOUT, SEND_ERROR, RECV_ERROR, GOT_NOTHING}
)
_PROTOCOLS = ("http", "https", "ftp", "file")
#: libcurl only says that a callback has ended the transfer.
_STALLED = "Aborted due to lack of progress"


class Result(Struct):
    """One file: how it went, over all tries."""

    url: str
    file_name: str
    upload: bool
    machine: str
    started: int = 0
    ended: int = 0
    success: bool = False
    error: str = ""
    file_bytes: int = 0
    total_bytes: int = 0
    connection_s: float = 0.0
    tries: int = 0
    http_status: int = -1
    code: int = -1
    cache: str = ""
    cache_host: str = ""
    errors: list[dict[str, Value]] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The server of the URL, with its port, without a name and password."""
        return self.url.partition("://")[2].partition("/")[0].rpartition("@")[2]

    @property
    def protocol(self) -> str:
        """The method, without a credential's name before it; empty for one that is not known."""
        method = self.url.partition("://")[0].lower().rpartition("+")[2]
        return method if method in _PROTOCOLS else ""

    def failed(self, code: int, message: str) -> None:
        """A try has failed: ``code`` is libcurl's."""
        self.success, self.code = False, code
        self.error = _STALLED if code == ABORTED_BY_CALLBACK else message
        self.errors.append({"ErrorCode": code, "ErrorString": message, **self._structured(code)})

    def _structured(self, code: int) -> dict[str, Value]:
        """What kind of error it is, in HTCondor's classes."""
        host = self.host
        kinds: dict[int, dict[str, Value]] = {
            URL_MALFORMAT: {"ErrorType": "Parameter", "PluginLaunched": True, "PluginVersion": VERSION},
            COULDNT_RESOLVE_PROXY: {"ErrorType": "Resolution", "FailedName": "Unknown", "FailureType": "Unknown"},
            COULDNT_RESOLVE_HOST: {"ErrorType": "Resolution", "FailedName": host, "FailureType": "Unknown"},
            COULDNT_CONNECT: {"ErrorType": "Contact", "FailedServer": "Unknown"},
            SSL_CONNECT_ERROR: {"ErrorType": "Contact", "FailedServer": "Unknown"},
            REMOTE_ACCESS_DENIED: {"ErrorType": "Authorization", "FailedServer": host, "FailureType": "Unknown"},
            FILE_COULDNT_READ_FILE: {"ErrorType": "Specification"},
            ABORTED_BY_CALLBACK: {"ErrorType": "Transfer", "FailedServer": "Unknown", "FailureType": "TooSlow"},
            TOO_MANY_REDIRECTS: {"ErrorType": "Specification", "FailedServer": "Unknown"},
            PEER_FAILED_VERIFICATION: {
                "ErrorType": "Authorization",
                "FailedServer": "Unknown",
                "FailureType": "Authentication",
            },
        }
        statuses: dict[int, dict[str, Value]] = {
            400: {"ErrorType": "Specification", "FailedServer": host},
            403: {"ErrorType": "Authorization", "FailureType": "Authorization", "FailedServer": host},
            404: {"ErrorType": "Specification", "FailedServer": host},
        }
        return statuses.get(self.http_status, {}) if code == HTTP_RETURNED_ERROR else kinds.get(code, {})

    def ad(self, env: Mapping[str, str]) -> ClassAd:
        """As it is written for the starter. ``env``: an error names the proxies that it has."""
        found: dict[str, Value] = {"TransferSuccess": self.success}
        if self.error:
            found["TransferError"] = self.error + _proxies(env)
        if self.protocol:
            found["TransferProtocol"] = self.protocol
        found |= {
            "TransferType": "upload" if self.upload else "download",
            "TransferFileName": self.file_name,
            "TransferFileBytes": self.file_bytes,
            "TransferTotalBytes": self.total_bytes,
            "TransferStartTime": self.started,
            "TransferEndTime": self.ended,
            "ConnectionTimeSeconds": self.connection_s,
            "TransferUrl": self.url,
        }
        developer: dict[str, Value] = {
            "HttpCacheHitOrMiss": self.cache,
            "HttpCacheHost": self.cache_host,
            "TransferHostName": self.host,
            "TransferLocalMachineName": self.machine,
            **({"TransferHTTPStatusCode": self.http_status} if self.http_status > 0 else {}),
            **({"LibcurlReturnCode": self.code} if self.code >= 0 else {}),
            **({"TransferTries": self.tries} if self.tries else {}),
        }
        found["DeveloperData"] = ClassAd({name: value for name, value in developer.items() if value != ""})
        if self.errors:
            found["TransferErrorData"] = [ClassAd(error) for error in self.errors]
        return ClassAd(found)


def _proxies(env: Mapping[str, str]) -> str:
    http, https = env.get("http_proxy"), env.get("https_proxy")
    if http is None and https is None:
        return ""
    return f" (with environment: http_proxy='{http or ''}', https_proxy='{https or ''}')"
