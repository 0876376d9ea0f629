"""The keys of a pool: listed, rotated, removed, and those of old pools replaced."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.errors import DeniedError, SlotwiseError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation


def keys(args: list[str], inv: Invocation) -> int:
    """List, add and remove the pool's keys."""
    from slotwise.wire.keys import PoolSecrets

    parser = Parser(inv, "token keys", "The pool's keys by id, the one that signs marked; on the central manager.")
    parser.add_argument("--rotate", "-rotate", action="store_true", help="make a new key, which signs in two minutes")
    parser.add_argument("--remove", "-remove", metavar="KEY", help="remove a key: what it signed is worth nothing then")
    parser.add_argument("--json", "-json", action="store_true", help="one JSON array, for programs")
    options = parser.take(args)
    if options is None:
        return 0
    secrets = PoolSecrets(inv.home)
    tell = inv.err if options.json else inv.out
    if options.rotate:
        tell(f"New key {secrets.add_key()}; it signs in two minutes, when all hosts know it.")
    if options.remove:
        secrets.remove_key(options.remove)
        tell(f"Key {options.remove} is removed.")
    if options.rotate or options.remove:
        _tell_collector(inv)
    signs = secrets.signer().kid if secrets.is_central else ""
    known = sorted(secrets.trust().keys)
    if options.json:
        inv.out(json.dumps([{"key": kid, "signs": kid == signs} for kid in known]))
        return 0
    for kid in known:
        inv.out(f"{'*' if kid == signs else ' '} {kid}")
    return 0


def _tell_collector(inv: Invocation) -> None:
    """A collector that has given up root reads the pool's private keys only when it starts: restart it."""
    from slotwise.cli.host.personal_pool import restart
    from slotwise.daemon import lock

    pid = lock.holder(inv.home, "collector")
    try:
        if pid is not None and os.geteuid() == 0 and Path(f"/proc/{pid}").stat().st_uid != 0:
            restart(["collector"], inv)
    except FileNotFoundError:
        return  # it has ended meanwhile


def upgrade(args: list[str], inv: Invocation) -> int:
    """Replace the one key of an old pool, and tokens that it signed."""
    import jwt

    from slotwise.config import load
    from slotwise.daemon.membership import is_central, prepare
    from slotwise.wire.keys import PoolSecrets
    from slotwise.wire.token import require_private, write_secret

    parser = Parser(
        inv,
        "token upgrade",
        "Replace the key that all hosts of an old pool share (HS256) by keys of the central manager; run it there, "
        "while the pool is down. Tokens in FILES are replaced by new ones, with an id and the same remaining lifetime.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of tokens of the old kind")
    options = parser.take(args)
    if options is None:
        return 0
    secrets, home = PoolSecrets(inv.home), inv.home
    if not secrets.old_key.exists():
        inv.out(f"The pool at {home.root} has no key of the old kind.")
        return 0
    require_private(secrets.old_key)
    old = secrets.old_key.read_text().strip()
    config = load(None, subsystem="MASTER", env=inv.env, home=home)
    aside = secrets.old_key.with_name("pool.key.old")
    central = is_central(config)
    renewed: list[tuple[Path, Mapping[str, object]]] = []
    if central:
        for name in options.files:
            path = inv.path(name)
            try:
                claims = jwt.decode(path.read_text().strip(), old, algorithms=["HS256"], options={"verify_iat": False})
            except jwt.PyJWTError as error:
                raise DeniedError(f"{path}: {error}", hint="only valid tokens of this pool can be renewed") from None
            renewed.append((path, claims))
    elif options.files:
        raise DeniedError("only the central manager signs tokens", hint="run this there for files of tokens")
    secrets.old_key.rename(aside)
    try:
        prepare(secrets, config, config.get("FULL_HOSTNAME") or "")
    except SlotwiseError:
        aside.rename(secrets.old_key)
        raise
    now = time.time()
    for path, said in renewed:
        scopes = str(said.get("scope", "")).split()
        left = None if "exp" not in said else max(1.0, float(str(said["exp"])) - now)
        write_secret(path, secrets.mint(str(said["sub"]), scopes, now=now, lifetime_s=left) + "\n")
        inv.out(f"{path}: a new token for {said['sub']}")
    aside.unlink()
    (home.secrets / "token").unlink(missing_ok=True)
    if central:
        inv.out(
            f"The pool's key is {secrets.signer().kid}. Other hosts: `slotwise token upgrade`, then they join anew."
        )
    else:
        inv.out("The old key is gone. `slotwise up` asks the central manager for a place in the pool.")
    return 0
