"""Whatever callers send, daemons answer with an error or do it, and live.

Random and mutated messages, packs, job ads and tokens to every method of the daemons of a pool, by callers who may do
everything and by those who may do nothing. SLOTWISE_FUZZ_CALLS and SLOTWISE_FUZZ_SEED make the run longer or another.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from slotwise.classad import ClassAd, ExprTree
from slotwise.table import pack_ads
from slotwise.wire import socket_path
from slotwise.wire.gen import (
    collector_pb2,
    daemon_pb2,
    negotiator_pb2,
    schedd_pb2,
    startd_pb2,
    starter_pb2,
)
from slotwise.wire.keys import PoolSecrets
from slotwise.wire.token import DAEMON_LEVELS, OWNER_LEVELS

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

CALLS = int(os.environ.get("SLOTWISE_FUZZ_CALLS", "300"))
SEED = int(os.environ.get("SLOTWISE_FUZZ_SEED", "1"))
#: These end or change daemons as they should, and are no attack.
NOT_CALLED = frozenset(("Shutdown", "Restart", "StopDaemons", "StartDaemons", "Reconfig", "Renew"))
SERVICES: dict[str, tuple[Any, str]] = {
    "collector": (collector_pb2.DESCRIPTOR, "Collector"),
    "negotiator": (negotiator_pb2.DESCRIPTOR, "Negotiator"),
    "schedd": (schedd_pb2.DESCRIPTOR, "Schedd"),
    "startd": (startd_pb2.DESCRIPTOR, "Startd"),
    "starter": (starter_pb2.DESCRIPTOR, "Starter"),
    "master": (daemon_pb2.DESCRIPTOR, "Master"),
}
WORDS = ["", "Machine", "Scheduler", "Job", "ann", "1.0", "1", "true", "(((", "\x00", "../../etc/passwd", "x" * 5000]
TEXTS = [
    "1 +",
    "{{{",
    "Owner",
    'regexp("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")',
    "[" * 300,
    "-" * 5000 + "1",
    "\\",
]


def ad(dice: random.Random) -> ClassAd:
    """Attributes that somebody may think of, with values that nobody should."""
    names = ["Owner", "User", "Cmd", "Iwd", "Requirements", "Rank", "JobUniverse", "JobStatus", "Name", "MyType", "a b"]
    names += [
        "ClusterId",
        "ProcId",
        "MyAddress",
        "State",
        "Cpus",
        "PeriodicHold",
        "JobMaterializeLimit",
        "UserLog",
        "\n",
    ]
    made = ClassAd()
    for name in dice.sample(names, dice.randrange(len(names))):
        value: Any = dice.choice([None, True, -1, 1 << 62, 1e308, "x", "\udcff", [1, [2]], {"a": {"b": 1}}])
        if dice.random() < 0.3:
            try:
                value = ExprTree(dice.choice([f"{name} + {name}", "time() % 0", "TARGET.Cpus", "undefined ?: error"]))
            except ValueError:
                value = 5
        try:
            made[name] = value
        except (ValueError, TypeError, OverflowError):
            continue
    return made


def mutated(dice: random.Random, data: bytes) -> bytes:
    """The bytes with some changed, missing or repeated."""
    changed = bytearray(data)
    for _ in range(dice.choice([0, 1, 2, 8])):
        if not changed:
            break
        at = dice.randrange(len(changed))
        what = dice.randrange(4)
        if what == 0:
            changed[at] = dice.randrange(256)
        elif what == 1:
            del changed[at : at + dice.randrange(1, 9)]
        elif what == 2:
            changed[at:at] = changed[at : at + dice.randrange(1, 60)]
        else:
            changed[at:at] = dice.randbytes(dice.randrange(1, 9))
    return bytes(changed)


def filled(dice: random.Random, message: Any, depth: int = 0) -> Any:
    """The message with some of its fields set."""
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.4:
            continue
        values = [value(dice, field, depth) for _ in range(dice.choice([1, 1, 3]) if field.is_repeated else 1)]
        try:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                getattr(message, field.name)[dice.choice(WORDS)] = dice.choice(TEXTS)
            elif field.message_type is not None:
                for one in values:
                    if field.is_repeated:
                        getattr(message, field.name).append(one)
                    else:
                        getattr(message, field.name).CopyFrom(one)
            elif field.is_repeated:
                getattr(message, field.name).extend(values)
            else:
                setattr(message, field.name, values[0])
        except (ValueError, TypeError):
            continue
    return message


def value(dice: random.Random, field: Any, depth: int) -> Any:
    """A value for a field."""
    if field.message_type is not None:
        made = field.message_type._concrete_class()
        return filled(dice, made, depth + 1) if depth < 4 else made
    if field.type == field.TYPE_BYTES:
        pack = pack_ads([ad(dice) for _ in range(dice.randrange(4))])
        return dice.choice([mutated(dice, pack), pack, dice.randbytes(40), b""])
    if field.type == field.TYPE_STRING:
        return dice.choice(WORDS + TEXTS)
    if field.type == field.TYPE_BOOL:
        return dice.random() < 0.5
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return dice.choice([0.0, -1.0, 1e308, float("nan"), float("inf")])
    if field.type == field.TYPE_ENUM:
        return dice.choice([0, 1, 99])
    return dice.choice([0, 1, 7, 1 << 31, (1 << 31) - 1, (1 << 32) - 1])


def calls(dice: random.Random, good: str) -> Iterator[tuple[str, str, bool, bool, list[bytes], str | None]]:
    """What is called: daemon, method, its kind, messages, token."""
    methods = [
        (daemon, f"/{file.package}.{service}/{method.name}", method)
        for daemon, (file, service) in SERVICES.items()
        for method in file.services_by_name[service].methods
        if method.name not in NOT_CALLED
    ]
    tokens = [
        good,
        good,
        good,
        mutated(dice, good.encode()).decode("latin-1"),
        None,
        "",
        "Bearer x",
        "Bearer " + "eyJ" * 500,
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Basic a",
    ]
    while True:
        daemon, path, method = dice.choice(methods)
        count = dice.choice([1, 1, 5]) if method.client_streaming else 1
        messages = [
            dice.choice([mutated(dice, data), data])
            for data in (filled(dice, method.input_type._concrete_class()).SerializeToString() for _ in range(count))
        ]
        yield daemon, path, method.client_streaming, method.server_streaming, messages, dice.choice(tokens)


def test_daemons_survive_whatever_is_sent(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(
        "NUM_CPUS = 2\nDAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD\nMAX_JOBS_PER_OWNER = 200\n"
    )
    pool.up()
    before = pool.pids()
    dice = random.Random(SEED)
    channels = {
        daemon: grpc.insecure_channel(
            socket_path.usable_target(f"unix:{pool.home.run / daemon}.sock"),
            options=[("grpc.default_authority", "slotwise")],
        )
        for daemon in SERVICES
    }

    def call(what: tuple[str, str, bool, bool, list[bytes], str | None]) -> grpc.StatusCode:
        daemon, path, streams_in, streams_out, messages, token = what
        kind = f"{'stream' if streams_in else 'unary'}_{'stream' if streams_out else 'unary'}"
        method = getattr(channels[daemon], kind)(path)
        shown = (("authorization", token.encode("ascii", "replace").decode()),) if token is not None else ()
        request: Any = iter(messages) if streams_in else messages[0]
        try:
            # A stream that a daemon keeps open, because it has nothing against it, is left.
            answer = method(request, metadata=shown, timeout=0.5 if streams_out else LIMIT_S)
            for _ in answer if streams_out else ():
                pass
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    levels = {level for each in DAEMON_LEVELS.values() for level in each} | set(OWNER_LEVELS)
    token = PoolSecrets(pool.home).mint("ann@here", sorted(levels), now=time.time(), lifetime_s=36_000)
    chosen = calls(dice, f"Bearer {token}")
    # Most of them wait: who shows wrong tokens is answered late, and an open stream is left after a while.
    with ThreadPoolExecutor(64) as threads:
        codes = list(threads.map(call, [next(chosen) for _ in range(CALLS)]))
    for opened in channels.values():
        opened.close()
    assert {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT} <= set(codes)
    assert grpc.StatusCode.UNAVAILABLE not in codes, "a daemon hung up"
    assert pool.pids() == before, "a daemon ended"
    for daemon in SERVICES:
        assert pool.answers(daemon), daemon
    assert pool.run("q", "-totals").returncode == 0
    assert pool.run("status").returncode == 0
