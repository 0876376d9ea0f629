"""Wires and starts the web service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import ConfigError
from slotwise.web.settings import WebSettings

if TYPE_CHECKING:
    from slotwise.web.server import Web


async def start(context: DaemonContext) -> Web:
    """Start the service.

    :raises ConfigError: when the packages that it needs are not installed, or its knobs do not fit.
    """
    settings = WebSettings.of(context.config)
    try:
        from slotwise.web.server import Web
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the web service needs the package {error.name}",
            hint="install slotwise[web], or take WEB out of DAEMON_LIST",
            key="DAEMON_LIST",
        ) from None
    web = Web(context, settings)
    await web.open()
    return web
