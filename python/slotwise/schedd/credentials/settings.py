"""Reads the knobs about credentials, and says what makes the tokens of a service.

Source: manual, "Credd Daemon Configuration Options" and "Installing the credmon"; HTCondor's ``CredSorter``.
"""

from __future__ import annotations

from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field

from slotwise.classad import ExprTree
from slotwise.config import Config


class Kind(Enum):
    """What makes the tokens that jobs use of a service."""

    #: The access point signs them.
    LOCAL = "local"
    #: The access point gets them for a refresh token.
    OAUTH2 = "oauth2"
    #: Their users: what they store is what jobs get.
    STORED = "stored"


class IssuerSettings(Struct, frozen=True):
    """LOCAL_CREDMON_*: how the access point signs tokens of one service."""

    issuer: str
    private_key: Path = Path("/etc/condor/scitokens-private.pem")
    public_key: Path = Path("/etc/condor/scitokens.pem")
    algorithm: str = "ES256"
    key_id: str = "local"
    lifetime_s: int = 1200
    audiences: tuple[str, ...] = ()
    version: str = "scitoken:2.0"
    use_json: bool = True
    template: str = "read:/user/{username} write:/user/{username}"
    expression: ExprTree | None = None
    group_template: str = ""
    group_file: str = ""
    required_group: str = ""


class ClientSettings(Struct, frozen=True):
    """The access point as a client of a service of OAuth2."""

    client_id: str
    secret_file: str = ""
    token_url: str = ""


class RequestDefaults(Struct, frozen=True):
    """What holds for jobs that ask for no scopes, or for no audience, of a service."""

    scopes: str = ""
    audience: str = ""
    must_say_scopes: bool = False
    must_say_audience: bool = False


class CredentialSettings(Struct, frozen=True):
    """The knobs about credentials."""

    #: SEC_CREDENTIAL_DIRECTORY_OAUTH; None: no credentials are kept.
    directory: Path | None = None
    trusts_directory: bool = False
    refresh_s: float = 300.0
    sweep_delay_s: float = 3600.0
    sweep_interval_s: float = 300.0
    superusers: tuple[str, ...] = ()
    vault_hosts: tuple[str, ...] = ()
    issuers: dict[str, IssuerSettings] = field(default_factory=dict)
    #: Services whose tokens whoever submits gets anyway.
    for_all: tuple[str, ...] = ()
    clients: dict[str, ClientSettings] = field(default_factory=dict)
    defaults: dict[str, RequestDefaults] = field(default_factory=dict)

    def kind(self, service: str) -> Kind:
        """What makes the tokens of a service."""
        if service in self.issuers:
            return Kind.LOCAL
        return Kind.OAUTH2 if self.client(service) is not None else Kind.STORED

    def client(self, service: str) -> ClientSettings | None:
        """How the access point is a client of a service; None where it is none. Knobs ignore case, so do services."""
        return self.clients.get(service.lower())

    def requirements(self, service: str) -> RequestDefaults:
        """What holds for jobs that ask for nothing in particular."""
        return self.defaults.get(service.lower(), RequestDefaults())

    def is_superuser(self, user: str) -> bool:
        """Whether a user may store credentials of others (CRED_SUPER_USERS: names, with or without a domain)."""
        names = (user, user.partition("@")[0])
        return any(
            fnmatchcase(name, pattern) for pattern in self.superusers for name in names[: 1 + ("@" not in pattern)]
        )

    @classmethod
    def read(cls, config: Config) -> CredentialSettings:
        """The settings that a configuration gives."""
        directory = config.get_text("SEC_CREDENTIAL_DIRECTORY_OAUTH")
        if not directory:
            return cls()
        named = config.get_list("LOCAL_CREDMON_PROVIDER_NAMES") or config.get_list("LOCAL_CREDMON_PROVIDER_NAME")
        for_all: list[str] = []
        if config.get_bool("SUBMIT_ADD_LOCAL_CREDMON_PROVIDERS"):
            for_all = config.get_list("SUBMIT_ADD_LOCAL_CREDMON_PROVIDER_NAMES") or named
        issuers = {name: _issuer(config, name) for name in named or [config.get_text("LOCAL_CREDMON_PROVIDER_NAME")]}
        return cls(
            directory=Path(directory),
            trusts_directory=config.get_bool("TRUST_CREDENTIAL_DIRECTORY"),
            refresh_s=max(0.0, config.get_float("SEC_CREDENTIAL_REFRESH")),
            sweep_delay_s=max(0.0, config.get_float("SEC_CREDENTIAL_SWEEP_DELAY")),
            sweep_interval_s=max(1.0, config.get_float("SEC_CREDENTIAL_SWEEP_INTERVAL")),
            superusers=tuple(config.get_list("CRED_SUPER_USERS")),
            vault_hosts=tuple(host.lower() for host in config.get_list("TRUSTED_VAULT_HOSTS")),
            issuers=issuers,
            for_all=tuple(name for name in for_all if name in issuers),
            clients=_clients(config),
            defaults=_defaults(config),
        )


def _issuer(config: Config, provider: str) -> IssuerSettings:
    def own(what: str) -> str:
        name = f"LOCAL_CREDMON_{provider}_{what}"
        return name if config.is_set(name) else f"LOCAL_CREDMON_{what}"

    usual = IssuerSettings(config.get_text(own("ISSUER")) or f"https://{config.get_text('FULL_HOSTNAME')}")
    return IssuerSettings(
        issuer=usual.issuer,
        private_key=Path(config.get_text(own("PRIVATE_KEY")) or usual.private_key),
        public_key=Path(config.get_text("LOCAL_CREDMON_PUBLIC_KEY") or usual.public_key),
        algorithm=(config.get_text(own("PRIVATE_KEY_ALGORITHM")) or usual.algorithm).upper(),
        key_id=config.get_text(own("KEY_ID")) or usual.key_id,
        lifetime_s=max(1, config.find_int(own("TOKEN_LIFETIME")) or usual.lifetime_s),
        audiences=tuple(config.get_text(own("TOKEN_AUDIENCE")).split()),
        version=config.get_text(own("TOKEN_VERSION")),
        use_json=config.find_bool(own("TOKEN_USE_JSON")) is not False,
        template=config.get_text(own("AUTHZ_TEMPLATE")) or usual.template,
        expression=config.get_expr(own("AUTHZ_TEMPLATE_EXPR")),
        group_template=config.get_text(own("AUTHZ_GROUP_TEMPLATE")),
        group_file=config.get_text(own("AUTHZ_GROUP_MAPFILE")),
        required_group=config.get_text(own("AUTHZ_GROUP_REQUIREMENT")),
    )


def _clients(config: Config) -> dict[str, ClientSettings]:
    served = {name.lower() for name in config.get_text("OAUTH2_CREDMON_PROVIDER_NAMES").replace(",", " ").split()}
    found = {}
    for name, service in config.members("<SERVICE>_CLIENT_ID"):
        client_id = config.get_text(name)
        if client_id and ("*" in served or service.lower() in served):
            secret, url = config.get_text(f"{service}_CLIENT_SECRET_FILE"), config.get_text(f"{service}_TOKEN_URL")
            found[service.lower()] = ClientSettings(client_id, secret, url)
    return found


def _defaults(config: Config) -> dict[str, RequestDefaults]:
    services = {
        service.lower()
        for what in ("DEFAULT_SCOPES", "USER_DEFINE_SCOPES", "DEFAULT_AUDIENCE", "USER_DEFINE_AUDIENCE")
        for _, service in config.members(f"<SERVICE>_{what}")
    }
    return {
        service: RequestDefaults(
            scopes=_listed(config.get_text(f"{service}_DEFAULT_SCOPES")),
            audience=_listed(config.get_text(f"{service}_DEFAULT_AUDIENCE")),
            must_say_scopes=config.get_text(f"{service}_USER_DEFINE_SCOPES").startswith("R"),
            must_say_audience=config.get_text(f"{service}_USER_DEFINE_AUDIENCE").startswith("R"),
        )
        for service in services
    }


def _listed(text: str) -> str:
    return ",".join(text.replace(",", " ").split())
