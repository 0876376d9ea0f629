"""The startd's configuration, read once: policies and ad knobs per slot, timers, resources, layout."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import ConfigError
from slotwise.model.resources import Resources
from slotwise.startd import ads
from slotwise.startd.ads import SlotKnobs
from slotwise.startd.clauses import clause_names, health_attributes
from slotwise.startd.evaluate import Expr, Expression, compiled
from slotwise.startd.policy import Policy, Timers, full_name, knobs_of
from slotwise.startd.reading import (
    Knobs,
    device_property,
    flag,
    flag_text,
    knob_expression,
    literal_or_expression,
    seconds,
    set_empty,
    words,
)
from slotwise.startd.requests import DEFAULT_MODIFIERS, Requesting
from slotwise.startd.slots.custom import CustomResource
from slotwise.startd.slots.devices import Choice
from slotwise.startd.slots.layout import SlotType, default_types
from slotwise.startd.slots.shares import parse_shares

if TYPE_CHECKING:
    from slotwise.startd.execution_point import ExecutionPoint
    from slotwise.startd.holding import Holding


_log = logging.getLogger(__name__)

#: BROKEN_SLOT_CONTEXT_ATTRS, when the configuration does not say.
BROKEN_CONTEXT = ("JobId", "RemoteUser", "RemoteScheddName")


@dataclass
class Sampled:
    """What is measured again and again, for all slots: load, idle times, free disk."""

    machine: Mapping[str, Any] = field(default_factory=dict)
    #: LoadAvg and CondorLoadAvg by slot name.
    loads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: What slots connected to the keyboard (the console) see, and what the others see.
    keyboard: tuple[int, int] = (0, 0)
    console: tuple[int, int] = (0, 0)


@dataclass
class Settings:
    """One reading of the configuration for one startd."""

    config: Knobs
    name: str
    machine: Mapping[str, Any]
    resources: Resources
    timers: Timers = field(default_factory=Timers)
    device_properties: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    sample: Sampled = field(default_factory=Sampled)
    proportional_swap: bool = False
    alives_per_lease: int = 6
    default_draining_start: str = ""
    #: What is said of the job that broke a slot; whether broken dynamic slots stay.
    broken_context: tuple[str, ...] = ()
    broken_lasts: bool = False
    #: How long a schedd may have a partitionable slot to itself (seconds); 0: not at all.
    pslot_claim_s: float = 0
    #: Over how long Recent... attributes go, and in steps of what.
    statistics_window_s: tuple[float, float] = (1200, 240)
    keyboard_slots: int = 0
    console_slots: int = 0
    draining_start: Expression | None = None
    #: Knobs that travel with runs, by slot name, once read.
    limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    _empty: frozenset[str] = frozenset()
    _policies: dict[tuple[int, int], Policy] = field(default_factory=dict)
    _knobs: dict[tuple[int, int], SlotKnobs] = field(default_factory=dict)
    _requesting: dict[tuple[int, int], Requesting] = field(default_factory=dict)
    _devices: dict[tuple[str, str], Expr] = field(default_factory=dict)
    _choices: dict[tuple[str, str], Choice] = field(default_factory=dict)

    @classmethod
    def of(
        cls, config: Knobs, machine: Mapping[str, Any], resources: Resources, custom: list[CustomResource], name: str
    ) -> Settings:
        """Read the knobs that hold for the whole startd."""
        timers = Timers(
            killing_s=seconds(config, "KILLING_TIMEOUT", 30),
            match_s=seconds(config, "MATCH_TIMEOUT", 120),
            drain_grace_s=seconds(config, "MAX_DRAINING_ACTIVATION_DELAY", 20),
            polling_s=max(0.1, seconds(config, "POLLING_INTERVAL", 5)),
            update_s=max(1.0, seconds(config, "UPDATE_INTERVAL", 300)),
            backfill=filler_wanted(config),
        )
        return cls(
            config,
            name,
            machine,
            resources,
            timers,
            {resource.tag: resource.properties for resource in custom},
            alives_per_lease=max(1, int(seconds(config, "MAX_CLAIM_ALIVES_MISSED", 6))),
            proportional_swap=flag(config, "PROPORTIONAL_SWAP_ASSIGNMENT"),
            default_draining_start=(config.get("DEFAULT_DRAINING_START_EXPR") or "").strip(),
            broken_context=tuple(words(config.get("BROKEN_SLOT_CONTEXT_ATTRS"))) or BROKEN_CONTEXT,
            pslot_claim_s=(
                seconds(config, "MAX_PARTITIONABLE_SLOT_CLAIM_TIME", 3600)
                if flag(config, "ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS")
                else 0
            ),
            statistics_window_s=(
                max(1.0, seconds(config, "STATISTICS_WINDOW_SECONDS", 1200)),
                max(1.0, seconds(config, "STATISTICS_WINDOW_QUANTUM", 240)),
            ),
            broken_lasts=flag(config, "CONTINUE_TO_ADVERTISE_BROKEN_DYNAMIC_SLOTS"),
            keyboard_slots=int(seconds(config, "SLOTS_CONNECTED_TO_KEYBOARD", 0)),
            console_slots=int(seconds(config, "SLOTS_CONNECTED_TO_CONSOLE", 0)),
            _empty=set_empty(config),
        )

    # --------------------------------------------------------------------------------------------------- per slot

    def read_all(self, slots: Iterable[tuple[int, int]]) -> None:
        """Read the knobs of these slots (ids with types) now.

        :raises ConfigError: for a knob that would fail when it is first needed.
        """
        for slot in slots:
            self.policy(*slot)
            self.slot_knobs(*slot)
            self.requesting(*slot)

    def policy(self, slot_id: int, type_number: int) -> Policy:
        """The policy of a slot; dynamic slots have that of their partitionable one."""
        found = self._policies.get((slot_id, type_number))
        if found is None:
            found = Policy(knobs_of(self.config.get, slot_id, type_number), self.timers)
            found.set_draining_start(self.draining_start)
            self._policies[slot_id, type_number] = found
        return found

    def set_draining_start(self, expression: Expression | None) -> None:
        """Put ``expression`` in the place of every slot's START; None gives it back."""
        self.draining_start = expression
        for policy in self._policies.values():
            policy.set_draining_start(expression)

    def slot_knobs(self, slot_id: int, type_number: int) -> SlotKnobs:
        """What the configuration adds to a slot's ad."""
        found = self._knobs.get((slot_id, type_number))
        if found is None:
            found = self._knobs[slot_id, type_number] = self._read_knobs(slot_id, type_number)
        return found

    def requesting(self, slot_id: int, type_number: int) -> Requesting:
        """How requests for dynamic slots of a partitionable one are read."""
        found = self._requesting.get((slot_id, type_number))
        if found is None:
            found = self._requesting[slot_id, type_number] = self._read_requesting(slot_id, type_number)
        return found

    def device(self, tag: str, name: str) -> ClassAd:
        """A device as an ad: its properties and those that all of its kind share, and ``Id``."""
        properties = self.device_properties.get(tag, {})
        ad = ClassAd({"Id": name})
        for text in (properties.get("", {}), properties.get(name, {})):
            for attribute, value in text.items():
                property_ = device_property(value)
                ad[attribute] = ExprTree(property_) if isinstance(property_, Expr) else property_
        return ad

    def devices_of(self, h: Holding) -> dict[str, Any]:
        """The ads of the devices that a slot was made of, and the properties that all of a kind share."""
        attributes: dict[str, Any] = {}
        for tag, names in (*h.total.devices.items(), *h.total.shared.items()):
            for name in names:
                if (tag, name) not in self._devices:
                    self._devices[tag, name] = Expr(str(self.device(tag, name)))
                attributes[ads.device_attribute(tag, name)] = self._devices[tag, name]
            for prop, text in self.device_properties.get(tag, {}).get("", {}).items():
                attributes[f"{tag}_{prop}"] = device_property(text)
        return attributes

    def device_suits(self, tag: str, constraint: str, name: str) -> bool:
        """Whether a device satisfies a slot type's constraint."""
        choice = self._choices.get((tag, constraint))
        if choice is None:
            names = self.resources.devices.get(tag) or self.resources.shared.get(tag, ())
            choice = self._choices[tag, constraint] = Choice.of(constraint, names, key=f"constraint of {tag}")
        return choice.suits(name, self.device(tag, name))

    def expression(self, text: str) -> Any:
        """A knob's text as an attribute: a plain value where it is a literal, else an expression."""
        return literal_or_expression(text)

    def sampled(self, h: Holding, point: ExecutionPoint) -> dict[str, Any]:
        """What was measured last, as slot ``h`` sees it."""
        sample = self.sample
        load, condor = sample.loads.get(h.name, (0.0, 0.0))
        return {
            **sample.machine,
            "LoadAvg": load,
            "CondorLoadAvg": condor,
            "KeyboardIdle": sample.keyboard[0 if h.slot_id <= self.keyboard_slots else 1],
            "ConsoleIdle": sample.console[0 if h.slot_id <= self.console_slots else 1],
        }

    def _read_knobs(self, slot_id: int, type_number: int) -> SlotKnobs:
        get = knobs_of(self.config.get, slot_id, type_number)
        names = words(self.config.get("SYSTEM_STARTD_ATTRS")) + words(self.config.get("STARTD_ATTRS"))
        names += words(self.config.get(f"SLOT{slot_id}_STARTD_ATTRS"))
        if type_number:
            names += words(self.config.get(f"SLOT_TYPE_{type_number}_STARTD_ATTRS"))
        attrs = {}
        for name in words(self.config.get("STARTD_EXPRS")):  # as in HTCondor, the value is that of the whole machine
            if text := (self.config.get(name) or "").strip():
                attrs[name] = knob_expression(name, text)
        for name in dict.fromkeys(names):
            text = (get(name) or "").strip()
            taken_out = {f"SLOT{slot_id}_{name}".upper(), f"SLOT_TYPE_{type_number}_{name}".upper()} & self._empty
            if text and (full_name(get, name) != name or not taken_out):
                attrs[name] = knob_expression(full_name(get, name), text)
        health = health_attributes(get)
        attrs.update(health)
        clauses = {knob: clause_names(get, f"{knob}_REQUIREMENTS_CLAUSES") for knob in ("SLOT", "PSLOT", "DSLOT")}
        for name in dict.fromkeys(name for names_ in clauses.values() for name in names_):
            attrs.setdefault(name, knob_expression(name, (get(name) or "").strip()))
        job_attrs = [*ads.JOB_ATTRS, *words(self.config.get("STARTD_JOB_ATTRS"))]
        job_attrs += words(self.config.get("STARTD_JOB_EXPRS"))
        slot_attrs = words(self.config.get("STARTD_SLOT_ATTRS")) + words(self.config.get("STARTD_SLOT_EXPRS"))
        child = words(self.config.get("STARTD_PARTITIONABLE_SLOT_ATTRS"))
        consumption = {}
        if flag_text(get("CONSUMPTION_POLICY")):
            for tag in ("Cpus", "Memory", "Disk", *self.resources.custom):
                default = f"ifThenElse(target.Request{tag} =?= undefined, 0, target.Request{tag})"
                knob = f"CONSUMPTION_{tag.upper()}"
                consumption[tag] = (get(knob) or default).strip()
                compiled(full_name(get, knob), consumption[tag])
        latches = {}
        for name in words(self.config.get("SYSTEM_STARTD_LATCH_EXPRS")) + words(self.config.get("STARTD_LATCH_EXPRS")):
            latches[name] = compiled(name, (get(name) or "").strip() or name)
        return SlotKnobs(
            attrs,
            tuple(dict.fromkeys(job_attrs)),
            tuple(dict.fromkeys([*ads.CHILD_ATTRS, *self.resources.tags, *child])),
            tuple(dict.fromkeys(slot_attrs)),
            (get("SLOT_WEIGHT") or "Cpus").strip(),
            consumption,
            clauses["SLOT"],
            clauses["PSLOT"],
            clauses["DSLOT"],
            latches,
            bool(health),
        )

    def _read_requesting(self, slot_id: int, type_number: int) -> Requesting:
        get = knobs_of(self.config.get, slot_id, type_number)
        tags = self.resources.tags
        modifiers: dict[str, Expression] = {}
        for tag in ("Cpus", "Memory", "Disk", *tags):
            knob = f"MODIFY_REQUEST_EXPR_REQUEST{tag.upper()}"
            text = (get(knob) or "").strip() or DEFAULT_MODIFIERS.get(tag, "")
            if text and "catalogs" in text:
                text = DEFAULT_MODIFIERS[tag]  # the reference's default also subtracts shared catalogues: none here
            if text:
                modifiers[tag] = compiled(full_name(get, knob), text)
        consumption = {
            tag: compiled(f"CONSUMPTION_{tag.upper()}", text)
            for tag, text in self.slot_knobs(slot_id, type_number).consumption.items()
        }
        return Requesting(tags, modifiers, flag(self.config, "MUST_MODIFY_REQUEST_EXPRS"), consumption)


# ------------------------------------------------------------------------------------------------------- the machine


def filler_wanted(config: Knobs) -> bool:
    """Whether there is filler work: ENABLE_BACKFILL, with the one system that there is, and its program."""
    if not flag(config, "ENABLE_BACKFILL"):
        return False
    system = (config.get("BACKFILL_SYSTEM") or "").strip()
    if system.upper() != "BOINC":
        _log.error("ENABLE_BACKFILL is true, but BACKFILL_SYSTEM is %s; only BOINC is known", system or "not set")
        return False
    return bool((config.get("BOINC_Executable") or "").strip())


def machine_resources(config: Knobs, facts: Mapping[str, Any], custom: list[CustomResource]) -> Resources:
    """What the startd may give out: detected amounts, overridden by NUM_CPUS and MEMORY, less what is reserved."""
    for knob in ("NUM_CPUS", "MEMORY", "RESERVED_MEMORY", "RESERVED_DISK", "RESERVED_SWAP"):
        if seconds(config, knob, 0) < 0:
            raise ConfigError(f"{knob} is negative", hint="0 or no value: what is detected", key=knob)
    cpus = seconds(config, "NUM_CPUS", 0) or float(facts.get("DetectedCpus", 1))
    memory = seconds(config, "MEMORY", 0) or float(facts.get("DetectedMemory", 1))
    memory = max(1.0, memory - seconds(config, "RESERVED_MEMORY", 0))
    disk = max(0.0, float(facts.get("TotalDisk", 0)) - 1024 * seconds(config, "RESERVED_DISK", 0))
    swap = max(0.0, float(facts.get("TotalVirtualMemory", 0)) - 1024 * seconds(config, "RESERVED_SWAP", 0))
    return Resources(
        int(cpus) if cpus == int(cpus) else cpus,
        int(memory),
        int(disk),
        int(swap),
        {resource.tag: resource.usable_amount for resource in custom if not resource.shared},
        {resource.tag: resource.usable for resource in custom if resource.devices and not resource.shared},
        {resource.tag: tuple(dict.fromkeys(resource.usable)) for resource in custom if resource.shared},
    )


def slot_types(config: Knobs, resources: Resources) -> list[SlotType]:
    """The slot types of the configuration, or the default.

    :raises ConfigError: for SLOT_TYPE_0, an unknown share, or a count that is no number.
    """
    for knob in ("SLOT_TYPE_0", "NUM_SLOTS_TYPE_0"):
        if config.get(knob) is not None:
            raise ConfigError(f"{knob} may not be set", hint="types begin with 1", key=knob)
    types = []
    most = int(seconds(config, "MAX_SLOT_TYPES", 10))
    prefix = (config.get("STARTD_RESOURCE_PREFIX") or "slot").strip()
    for number in range(1, most + 1):
        text = config.get(f"SLOT_TYPE_{number}")
        count = config.get(f"NUM_SLOTS_TYPE_{number}")
        if text is None and count is None:
            continue
        shares = parse_shares(text or "auto", list(resources.tags), key=f"SLOT_TYPE_{number}")
        for tag, constraint in shares.constraints.items():
            devices = resources.devices.get(tag) or resources.shared.get(tag, ())
            Choice.of(constraint, devices, key=f"SLOT_TYPE_{number} (constraint of {tag})")
            if not devices:
                _log.warning("SLOT_TYPE_%s: %s has no named devices, so %r chooses nothing", number, tag, constraint)
        types.append(
            SlotType(
                number,
                _how_many(config, f"NUM_SLOTS_TYPE_{number}"),
                shares,
                flag(config, f"SLOT_TYPE_{number}_PARTITIONABLE"),
                (config.get(f"SLOT_TYPE_{number}_NAME_PREFIX") or prefix).strip(),
                flag(config, f"SLOT_TYPE_{number}_BACKFILL"),
            )
        )
    if any(slot_type.count for slot_type in types):
        return types
    if types:
        named = ", ".join(f"SLOT_TYPE_{slot_type.number}" for slot_type in types)
        _log.warning("%s: not creating slots of this type, its NUM_SLOTS_TYPE_<N> is not set or 0", named)
    several = int(seconds(config, "NUM_SLOTS", 0)) if config.get("NUM_SLOTS") else None
    kind = config.get("SLOT_TYPE_0_PARTITIONABLE")
    if several is None and kind and not flag_text(kind):
        several = int(resources.cpus)
    plain = default_types(several, resources.cpus)
    whole = flag_text(kind) if kind else None
    return [
        replace(slot_type, prefix=prefix, partitionable=slot_type.partitionable if whole is None else whole)
        for slot_type in plain
    ]


def _how_many(config: Knobs, knob: str) -> int:
    count = seconds(config, knob, 0)
    if count < 0 or count != int(count):
        raise ConfigError(f"{knob} is {count:g}", hint="it is a number of slots", key=knob)
    return int(count)
