"""Knobs of the web service."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self, cast, get_args

from msgspec import Struct

from slotwise.config import Config
from slotwise.errors import ConfigError
from slotwise.wire import tls

#: Who may read without a token.
Readers = Literal["loopback", "all", "none"]
#: What there is to ask for.
Serves = Literal["all", "metrics"]


class WebSettings(Struct, frozen=True):
    """Where the service listens, and whom it answers without a token (SLOTWISE_HTTP_*)."""

    host: str = "127.0.0.1"
    port: int = 9619
    readers: Readers = "loopback"
    connections: int = 200
    certificate: Path | None = None
    key: Path | None = None
    serves: Serves = "all"

    @classmethod
    def of(cls, config: Config) -> Self:
        """The settings of a configuration.

        :raises ConfigError: when a token could be read on its way, or a value is not one of those that there are.
        """
        host = config.get_str("SLOTWISE_HTTP_LISTEN")
        readers = _one_of(config, "SLOTWISE_HTTP_READ_WITHOUT_TOKEN", get_args(Readers))
        serves = _one_of(config, "SLOTWISE_HTTP_SERVES", get_args(Serves))
        files = tls.server_files(config)
        if files is None and not tls.is_loopback(host) and not config.get_bool("SLOTWISE_ALLOW_CLEARTEXT"):
            raise ConfigError(
                f"SLOTWISE_HTTP_LISTEN = {host} reaches beyond this machine without TLS",
                hint="set AUTH_SSL_SERVER_CERTFILE and AUTH_SSL_SERVER_KEYFILE",
                key="SLOTWISE_HTTP_LISTEN",
            )
        certificate, key = files or (None, None)
        return cls(
            host,
            config.get_int("SLOTWISE_HTTP_PORT"),
            cast("Readers", readers),
            max(1, config.get_int("SLOTWISE_HTTP_MAX_CONNECTIONS")),
            certificate,
            key,
            serves=cast("Serves", serves),
        )


def _one_of(config: Config, knob: str, words: tuple[str, ...]) -> str:
    """The word that a knob has.

    :raises ConfigError: when it is another.
    """
    word = config.get_str(knob).lower()
    if word not in words:
        raise ConfigError(f"{knob} = {word} is not known", hint=f"one of {', '.join(words)}", key=knob)
    return word
