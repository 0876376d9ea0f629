"""Custom resources: MACHINE_RESOURCE_<tag> as counts and lists of devices, inventory programs, offline devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.config import Config
from slotwise.errors import AdSyntaxError, ConfigError

#: Tags that would be taken for the machine's own resources.
RESERVED_TAGS = frozenset({"CPU", "CPUS", "DISK", "SWAP", "MEM", "MEMORY", "RAM"})


class CustomResource(Struct, frozen=True):
    """What the machine has of a custom resource.

    ``devices`` are the names in the order in which they are handed out; empty for a mere count. ``properties`` has the
    attributes of single devices by name, as expression texts; those under ``""`` hold for all.
    """

    tag: str
    amount: float
    devices: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Several slots may have the same device at once.
    shared: bool = False

    @property
    def usable(self) -> tuple[str, ...]:
        """Devices that may be handed out."""
        return tuple(name for name in self.devices if name not in self.offline)

    @property
    def usable_amount(self) -> float:
        """How much may be handed out."""
        return len(self.usable) if self.devices else max(0, self.amount - len(self.offline))


def custom_resources(config: Config, run_inventory: Callable[[str, str], str]) -> list[CustomResource]:
    """The machine's custom resources from the configuration.

    ``run_inventory(tag, command)`` runs a program and gives what it printed.

    :raises ConfigError: for a reserved tag.
    """
    tags: dict[str, str] = {}
    inventories = config.members("MACHINE_RESOURCE_INVENTORY_<RESOURCE>")
    for _name, tag in sorted([*config.members("MACHINE_RESOURCE_<RESOURCE>"), *inventories]):
        tags.setdefault(tag.lower(), tag)
    resources = []
    for tag in tags.values():
        if tag.upper() in RESERVED_TAGS:
            raise ConfigError(
                f"MACHINE_RESOURCE_{tag}: {tag} is a resource of every machine",
                hint="choose another name",
                key=f"MACHINE_RESOURCE_{tag}",
            )
        if not is_named(tag, config):
            continue
        resource = _resource(tag, config, run_inventory)
        shared = config.get_bool(f"SHARED_MACHINE_RESOURCE_{tag}")
        resources.append(replace(resource, shared=shared and bool(resource.devices)))
    return resources


def is_named(tag: str, config: Config) -> bool:
    """Whether MACHINE_RESOURCE_NAMES lets the machine have a resource; empty, it lets it have any."""
    names = {name.lower() for name in config.get_list("MACHINE_RESOURCE_NAMES")}
    return not names or tag.lower() in names


def _resource(tag: str, config: Config, run_inventory: Callable[[str, str], str]) -> CustomResource:
    offline = names_in(config.get_str(f"OFFLINE_MACHINE_RESOURCE_{tag}"))
    value = config.get(f"MACHINE_RESOURCE_{tag}")
    if value is not None and "\n" in value.strip():  # of several lines: an ad such as inventory programs print
        return parse_inventory(tag, value, offline)
    if value is not None and value.strip():
        amount, devices = amount_or_devices(value)
        return CustomResource(tag, amount, devices, offline)
    command = config.get(f"MACHINE_RESOURCE_INVENTORY_{tag}")
    if not command:
        return CustomResource(tag, 0, (), offline)
    return parse_inventory(tag, run_inventory(tag, command), offline)


def amount_or_devices(text: str) -> tuple[float, tuple[str, ...]]:
    """``"4"`` is a count, ``"a, b"`` names two devices; a device may be named several times to be shared."""
    text = text.strip().strip('"')
    try:
        amount = float(text)
        return (int(amount) if amount == int(amount) else amount), ()
    except ValueError:
        devices = names_in(text)
        return len(devices), devices


def names_in(text: str) -> tuple[str, ...]:
    """Names separated by commas or blanks."""
    return tuple(name for name in re.split(r"[,\s]+", text.strip().strip('"')) if name)


def parse_inventory(tag: str, printed: str, offline: tuple[str, ...] = ()) -> CustomResource:
    """What an inventory program printed: ``Detected<tag> = 3`` or a list of names, and properties.

    ``<name>_<property> = value`` (characters of the name that cannot be in an attribute become ``_``) is a property
    of one device, ``<tag>_<property>`` of all. So are those of a nested ad, which belongs to the device that its ``id``
    or else its name says, and to all when it is called ``Common``.
    """
    amount: float = 0
    devices: tuple[str, ...] = ()
    rest: dict[str, str] = {}
    for line in printed.splitlines():
        name, equals, value = line.partition("=")
        if not equals or line.lstrip().startswith("#"):
            continue
        if name.strip().lower() in (f"detected{tag}".lower(), f"{tag}".lower()):
            amount, devices = amount_or_devices(value)
        else:
            rest[name.strip()] = value.strip()
    off = next((rest.pop(name) for name in list(rest) if name.lower() == f"offline{tag}".lower()), None)
    properties: dict[str, dict[str, str]] = {}
    for name, value in rest.items():
        if value.startswith("[") and (nested := _nested(name, value, devices)) is not None:
            properties.setdefault(nested[0], {}).update(nested[1])
            continue
        owner = next((d for d in dict.fromkeys(devices) if name.startswith(f"{attribute_name(d)}_")), None)
        if owner is not None:
            properties.setdefault(owner, {})[name[len(attribute_name(owner)) + 1 :]] = value
        elif name.lower().startswith(f"{tag.lower()}_"):
            properties.setdefault("", {})[name[len(tag) + 1 :]] = value
        else:
            properties.setdefault("", {})[name] = value
    return CustomResource(tag, amount, devices, offline + names_in(off or ""), properties)


def _nested(name: str, text: str, devices: Iterable[str]) -> tuple[str, dict[str, str]] | None:
    """The device that a nested ad is about ("" for all) and its properties; None when it is about none."""
    try:
        ad = ClassAd(text)
    except AdSyntaxError:
        return None
    found = {attribute: str(ad.lookup(attribute)) for attribute in ad}
    if name.lower() == "common":
        return "", found
    about = ad.get("Id")
    for device in devices:
        if device == about or (not isinstance(about, str) and name in (device, attribute_name(device))):
            return device, {attribute: value for attribute, value in found.items() if attribute.lower() != "id"}
    return None


def attribute_name(device: str) -> str:
    """A device's name as part of an attribute name."""
    return re.sub(r"\W", "_", device)
