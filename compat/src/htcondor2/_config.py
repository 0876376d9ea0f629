"""``param`` and ``RemoteParam``: the configuration of this host, and that of a daemon."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from classad2 import ClassAd
from slotwise.config import Config, knobs, load
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

from htcondor2 import _pool
from htcondor2._errors import as_htcondor

#: What a knob is, by its type.
Value = bool | int | float | str

_subsystem = "TOOL"
_root: str | None = None


class Param(MutableMapping[str, Value]):
    """The configuration as programs of this host read it. Values that are set hold in this process alone."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._own: dict[str, str] = {}

    @property
    def own(self) -> dict[str, str]:
        """The values that were set."""
        return dict(self._own)

    def forget(self) -> None:
        """Read the files again at the next look."""
        self._config = None

    @property
    def _knobs(self) -> Config:
        if self._config is None:
            pool = _pool.pool()
            with as_htcondor():
                self._config = load(_root, subsystem=_subsystem, env=pool.env, home=pool.home)
        return self._config

    def __getitem__(self, key: str) -> Value:
        if not isinstance(key, str):
            raise TypeError("key must be a string")
        if key.lower() in self._own:
            return self._own[key.lower()]
        value = self._knobs.typed(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: Value) -> None:
        if not isinstance(key, str):
            raise TypeError("key must be a string")
        if not isinstance(value, str):
            raise TypeError("value must be a string")
        self._own[key.lower()] = value

    def __delitem__(self, key: str) -> None:
        del self._own[key.lower()]

    def __iter__(self) -> Iterator[str]:
        known = {knob.name for knob in knobs() if self._knobs.get(knob.name) is not None}
        return iter(sorted({*known, *(name for name, _, _ in self._knobs.settings()), *self._own}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


param = Param()


def set_subsystem(name: str, kind: object = None) -> None:
    """Read the configuration as this subsystem does."""
    global _subsystem
    _subsystem = name.upper()
    param.forget()


def reload_config(root_config_file: str | None = None) -> None:
    """Read the configuration again, from another root file where one is given."""
    global _root
    _root = root_config_file
    param.forget()
    _pool.forget()


class RemoteParam(MutableMapping[str, str]):
    """The configuration of a daemon. What is set there holds once it was reconfigured (ENABLE_RUNTIME_CONFIG)."""

    def __init__(self, location: ClassAd) -> None:
        self._address = _pool.address_of(location, "daemon")
        self._cache: dict[str, str] = {}

    def _stub(self) -> daemon_pb2_grpc.DaemonStub:
        return _pool.stub(daemon_pb2_grpc.DaemonStub, self._address)

    def refresh(self) -> None:
        """Forget what was looked up."""
        self._cache = {}

    def __getitem__(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError("key must be a string")
        if key not in self._cache:
            request = daemon_pb2.ConfigValuesRequest(names=[key])
            with _pool.calling("the daemon"):
                reply = self._stub().ConfigValues(request, timeout=60)
            if key not in reply.values:
                raise KeyError(key)
            self._cache[key] = reply.values[key]
        return self._cache[key]

    def __setitem__(self, key: str, value: str) -> None:
        if not isinstance(key, str):
            raise TypeError("key must be a string")
        if not isinstance(value, str):
            raise TypeError("value must be a string")
        request = daemon_pb2.SetConfigRequest(name=key, value=value, runtime=True)
        with _pool.calling("the daemon"):
            self._stub().SetConfig(request, timeout=60)
        self._cache[key] = value

    def __delitem__(self, key: str) -> None:
        self[key] = ""
        self._cache.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        # A daemon is asked for names; those that only its files have are those of this host's, which most often are
        # the same.
        return iter(sorted({*(knob.name for knob in knobs()), *param}))

    def __len__(self) -> int:
        return sum(1 for _ in self)
