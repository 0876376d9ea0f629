"""Installs a package in a chroot of a fresh Debian and uses it: ``python packaging/check.py PACKAGE`` (root).

Seen to work: the account and directories are made, a pool comes up under a service manager's socket, an ordinary user
submits a job under both names of the command and gets its output, an upgrade keeps the job, the host becomes the
first one of a larger pool and leaves it, removal stops the daemons and keeps the state, purging leaves nothing. The
chroot, made by mmdebstrap, is kept in ``build/`` for the next time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHROOT = ROOT / "build" / "bookworm"


def main() -> None:
    """Make the chroot if there is none, and take the steps."""
    package = Path(sys.argv[1]).resolve()
    if not (CHROOT / "usr/bin/rpm").exists():
        unfinished = CHROOT.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        include = "python3.11,procps,util-linux,ca-certificates,rpm"
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={include}", "bookworm", str(unfinished)]
        subprocess.run(words, check=True)
        shutil.rmtree(CHROOT, ignore_errors=True)
        unfinished.rename(CHROOT)
    shutil.copy2(package, CHROOT / f"package{package.suffix}")
    shutil.copy2("/etc/resolv.conf", CHROOT / "etc/resolv.conf")
    (CHROOT / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.0.1 cm.example cm\n")
    mounts = (
        "hostname cm.example",
        f"mount --bind {CHROOT} {CHROOT}",  # jobs get mounts of their own, which wants a root that is one
        f"mount -t proc proc {CHROOT}/proc",
        f"mount --rbind /dev {CHROOT}/dev",
        f"mount -t tmpfs tmpfs {CHROOT}/dev/shm",
        f"mount --rbind /sys {CHROOT}/sys",
        f'exec chroot {CHROOT} bash -c "$0" inside {package.suffix[1:]}',
    )
    steps = (ROOT / "packaging" / "check_inside.sh").read_text()
    apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
    subprocess.run([*apart, "bash", "-e", "-c", "; ".join(mounts), steps], check=True, timeout=600)


if __name__ == "__main__":
    main()
