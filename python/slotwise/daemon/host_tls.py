"""The files of a host's certificate in its pool's home: ``tls/``, which users may read but for the key.

All are the owner's of the home, root's where root runs the daemons: what decides whom users' commands trust.
"""

from __future__ import annotations

from pathlib import Path

from slotwise import whole_file
from slotwise.errors import UsageError
from slotwise.home import PoolHome
from slotwise.wire import authority


class HostTls:
    """The files."""

    def __init__(self, home: PoolHome) -> None:
        self.directory = home.root / "tls"
        self.authorities = self.directory / "ca.pem"
        self.certificate = self.directory / "host.pem"
        self.key = self.directory / "host.key"

    def create(self) -> None:
        """Make the directory."""
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.directory.chmod(0o755)

    def present(self) -> tuple[str, float] | None:
        """The digest of the certificate's key, and when the certificate ends; None without one of the pool's."""
        try:
            key = authority.key_id_of(authority.host_key(self.key).public_key()) if self.key.exists() else ""
            return (key, authority.ends_at(self.certificate.read_bytes())) if key else None
        except (OSError, UsageError):
            return None

    def renewal_due_at(self) -> float | None:
        """When the certificate is to be renewed, in epoch seconds: at once when another authority signs by now.

        None for a host without one of the pool's.
        """
        try:
            if not self.key.exists():
                return None
            shown = self.certificate.read_bytes()
            signs = authority.fingerprint(self.authorities.read_text())
            return authority.due_at(shown) if signs == authority.signer_fingerprint(shown) else 0.0
        except (OSError, UsageError):
            return None

    def write(self, path: Path, text: str) -> bool:
        """Replace a file that everybody may read, in one step; whether it has changed."""
        try:
            if path.read_text() == text:
                return False
        except (OSError, UnicodeDecodeError):
            pass
        whole_file.write(path, text, mode=0o644, exact=True)
        return True
