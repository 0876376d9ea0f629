"""Encryption of a job's scratch volume with a key that is made for it and kept by the kernel alone.

Where the host has device mapper the volume's device is encrypted (dm-crypt, by ``cryptsetup``); where it has not, all
files of the volume's ext4 file system are, with their names (fscrypt). The key is 512 random bits; it is in no file, in
no argument and in no environment, and is gone when the volume is taken away or the host goes down. Who has the disk
afterwards has noise. All functions block.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from slotwise.errors import HostError
from slotwise.starter.enforcement.host_programs import has_device_mapper, run

DM_CRYPT, FSCRYPT = "dm-crypt", "fscrypt"
_KEY_BYTES = 64
#: Where the kernel shows devices of device mapper.
_MAPPER = Path("/dev/mapper")

# ---------------------------------------------------------------------------------------------------------- dm-crypt


def open_device(device: str, label: str) -> str:
    """Put encryption between a device (or file) and what is written to it; the path of the device to be used.

    :raises HostError: when the host refuses.
    """
    if not has_device_mapper():
        raise HostError("the kernel has no device mapper")
    run(
        "cryptsetup", "open", "-q", "--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", str(8 * _KEY_BYTES),
        "--key-file", "-", device, label, data=os.urandom(_KEY_BYTES),
    )  # fmt: skip
    return str(_MAPPER / label)


def device_of(label: str) -> str | None:
    """The path of an encrypted device that is open; None when it is not."""
    path = _MAPPER / label
    return str(path) if path.exists() else None


def close_device(label: str) -> list[str]:
    """Close an encrypted device, with which its key goes; what could not be done, in words. Where something holds it
    still, the kernel closes it when that lets go."""
    if device_of(label) is None:
        return []
    try:
        run("cryptsetup", "close", label)
    except HostError as error:
        with contextlib.suppress(HostError):
            run("cryptsetup", "close", "--deferred", label)
        return [str(error)] if device_of(label) is not None else []
    return []


def open_labels(prefix: str) -> list[str]:
    """The encrypted devices that are open and whose names begin so."""
    return sorted(path.name for path in _MAPPER.glob(f"{prefix}*")) if _MAPPER.is_dir() else []


# ----------------------------------------------------------------------------------------------------------- fscrypt

#: The directory of the file system in which all is encrypted; that of the whole file system cannot be.
_WITHIN = "encrypted"
#: Features for ``mkfs.ext4 -O``.
FEATURE = "encrypt"


def _ioctl(number: int, size: int, way: int = 3) -> int:
    return (way << 30) | (size << 16) | (ord("f") << 8) | number


_KEY_SPEC = "=II32s"  # kind (2: named by what the kernel works out), reserved, name
_ADD_KEY = _ioctl(23, 80)
_REMOVE_KEY = _ioctl(24, 64)
_GET_POLICY = _ioctl(22, 9)
_SET_POLICY = _ioctl(19, 12, way=2)
#: Version 2; files by AES-256-XTS, names by AES-256-CTS; names padded to 32 bytes.
_POLICY = struct.Struct("=BBBBB3s16s")


def lock(mount: Path) -> None:
    """Have everything encrypted that is written below ``mount``, a fresh ext4 file system with :data:`FEATURE`.

    :raises OSError: when the kernel refuses.
    :raises HostError: when the mount is refused.
    """
    argument = bytearray(struct.pack(f"{_KEY_SPEC}II32s", 2, 0, b"", _KEY_BYTES, 0, b"") + os.urandom(_KEY_BYTES))
    within = mount / _WITHIN
    within.mkdir(mode=0o755)
    try:
        with _opened(mount) as top, _opened(within) as inner:
            fcntl.ioctl(top, _ADD_KEY, argument, True)
            fcntl.ioctl(inner, _SET_POLICY, _POLICY.pack(2, 1, 4, 3, 0, b"", bytes(argument[8:24])))
    finally:
        argument[:] = bytes(len(argument))
    run("mount", "--bind", str(within), str(mount))


def unlock_is_lost(mount: Path) -> bool:
    """True when this file system was encrypted, and has been mounted again: its key is gone."""
    return (mount / _WITHIN).is_dir()


def forget_key(mount: Path) -> None:
    """Have the kernel drop the key of what is mounted there, whoever sees the mount; nothing where there is none."""
    found = bytearray(struct.pack("=Q24s", 24, b""))
    with contextlib.suppress(OSError), _opened(mount) as top:
        fcntl.ioctl(top, _GET_POLICY, found, True)
        name = _POLICY.unpack_from(found, 8)[6]
        removal = bytearray(struct.pack(f"{_KEY_SPEC}I20s", 2, 0, name, 0, b""))
        os.sync()
        fcntl.ioctl(top, _REMOVE_KEY, removal, True)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def refusal(error: OSError) -> str:
    """Why the kernel does not encrypt files, in words."""
    if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL):
        return "the kernel encrypts no files of ext4"
    return str(error.strerror)
