"""The startd's configuration, read once: policies and ad knobs per slot, timers, resources, layout."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.evaluate import (
    Expr,
    Expression,
    Value,
    compiled,
    device_property,
    knob_expression,
    literal_or_expression,
    number,
)
from slotwise.config import Config
from slotwise.config.slot_names import prefix_of
from slotwise.config.slot_shares import parse_shares
from slotwise.config.view import DEFAULT
from slotwise.daemon import duty_cycle
from slotwise.errors import ConfigError
from slotwise.model.publication import Publication
from slotwise.model.resources import Resources
from slotwise.startd.policy.consumption import Requesting
from slotwise.startd.policy.expressions import Policy, Timers
from slotwise.startd.policy.requirements_clauses import clause_names, health_attributes
from slotwise.startd.policy.slot_config import SlotConfig
from slotwise.startd.policy.slot_knobs import CHILD_ATTRS, JOB_ATTRS, SlotKnobs
from slotwise.startd.slot_types.custom import CustomResource
from slotwise.startd.slot_types.devices import Choice, device_attribute
from slotwise.startd.slot_types.layout import SlotType, default_types

_log = logging.getLogger(__name__)


class Sampled(Struct):
    """What is measured again and again, for all slots: load, idle times, free disk."""

    machine: Mapping[str, Value] = field(default_factory=dict)
    #: LoadAvg and CondorLoadAvg by slot name.
    loads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: What slots connected to the keyboard (the console) see, and what the others see.
    keyboard: tuple[int, int] = (0, 0)
    console: tuple[int, int] = (0, 0)


class Fetching(Struct, frozen=True):
    """STARTD_JOB_HOOK_KEYWORD, or the slot's own, and FetchWorkDelay (None: it says nothing)."""

    keyword: str = ""
    delay: Expression | None = None


class Settings(Struct):
    """One reading of the configuration for one startd."""

    config: Config
    name: str
    machine: Mapping[str, Value]
    resources: Resources
    timers: Timers = field(default_factory=Timers)
    device_properties: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    sample: Sampled = field(default_factory=Sampled)
    proportional_swap: bool = False
    alives_per_lease: int = 6
    default_draining_start: str = ""
    #: The attributes of the job that broke a slot, for ads; and whether broken dynamic slots stay.
    broken_context: tuple[str, ...] = ()
    broken_lasts: bool = False
    #: Whether processes that cannot be killed break the slot of their job.
    unkillable_break: bool = False
    #: CHECK_REACTIVATE_AFTER_CHECKPOINT.
    checks_checkpoints: bool = True
    #: Whether schedds that ask for it get what is left of a partitionable slot.
    gives_leftovers: bool = True
    #: How long a schedd may have a partitionable slot to itself (seconds); 0: not at all.
    pslot_claim_s: float = 0
    #: Over how long Recent... attributes go, and in steps of what.
    statistics_window_s: tuple[float, float] = (1200, 240)
    #: Which statistics of the category DC the startd's own ad shows.
    daemon_statistics: Publication = duty_cycle.DEFAULT
    #: The statistics that STATISTICS_TO_PUBLISH_LIST names, in small letters.
    statistics_listed: frozenset[str] = frozenset()
    keyboard_slots: int = 0
    console_slots: int = 0
    draining_start: Expression | None = None
    #: Knobs that travel with runs, by slot name, once read.
    limits: dict[str, dict[str, Value]] = field(default_factory=dict)
    #: Knobs that were set to nothing, in capitals.
    _empty: frozenset[str] = frozenset()
    _policies: dict[tuple[int, int], Policy] = field(default_factory=dict)
    _knobs: dict[tuple[int, int], SlotKnobs] = field(default_factory=dict)
    _requesting: dict[tuple[int, int], Requesting] = field(default_factory=dict)
    _devices: dict[tuple[str, str], Expr] = field(default_factory=dict)
    _fetching: dict[tuple[int, int], Fetching] = field(default_factory=dict)
    _choices: dict[tuple[str, str], Choice] = field(default_factory=dict)

    @classmethod
    def of(
        cls, config: Config, machine: Mapping[str, Value], resources: Resources, custom: list[CustomResource], name: str
    ) -> Settings:
        """Read the knobs that hold for the whole startd."""
        timers = Timers(
            killing_s=config.get_float("KILLING_TIMEOUT"),
            match_s=config.get_float("MATCH_TIMEOUT"),
            drain_grace_s=config.get_float("MAX_DRAINING_ACTIVATION_DELAY"),
            polling_s=max(0.1, config.get_float("POLLING_INTERVAL")),
            update_s=max(1.0, config.get_float("UPDATE_INTERVAL")),
            backfill=filler_wanted(config),
        )
        return cls(
            config,
            name,
            machine,
            resources,
            timers,
            {resource.tag: resource.properties for resource in custom},
            alives_per_lease=max(1, config.get_int("MAX_CLAIM_ALIVES_MISSED")),
            proportional_swap=config.get_bool("PROPORTIONAL_SWAP_ASSIGNMENT"),
            default_draining_start=config.get_text("DEFAULT_DRAINING_START_EXPR"),
            broken_context=tuple(config.get_list("BROKEN_SLOT_CONTEXT_ATTRS")),
            pslot_claim_s=(
                config.get_float("MAX_PARTITIONABLE_SLOT_CLAIM_TIME")
                if config.get_bool("ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS")
                else 0
            ),
            statistics_window_s=(
                config.get_float("STATISTICS_WINDOW_SECONDS"),
                config.get_float("STATISTICS_WINDOW_QUANTUM"),
            ),
            daemon_statistics=Publication.configured(config, "DC", "DAEMONCORE", default=duty_cycle.DEFAULT),
            statistics_listed=Publication.configured(config).listed,
            broken_lasts=config.get_bool("CONTINUE_TO_ADVERTISE_BROKEN_DYNAMIC_SLOTS"),
            checks_checkpoints=config.get_bool("CHECK_REACTIVATE_AFTER_CHECKPOINT"),
            unkillable_break=config.get_bool("STARTD_LEFTOVER_PROCS_BREAK_SLOTS"),
            gives_leftovers=_unless_set_to_false(config, "CLAIM_PARTITIONABLE_LEFTOVERS"),
            keyboard_slots=config.get_int("SLOTS_CONNECTED_TO_KEYBOARD"),
            console_slots=config.get_int("SLOTS_CONNECTED_TO_CONSOLE"),
            _empty=frozenset(name.upper() for name, raw, _origin in config.settings() if not raw.strip()),
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
            self.fetching(*slot)

    def policy(self, slot_id: int, type_number: int) -> Policy:
        """The policy of a slot; dynamic slots have that of their partitionable one."""
        found = self._policies.get((slot_id, type_number))
        if found is None:
            found = Policy(SlotConfig(self.config, slot_id, type_number), self.timers)
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

    def fetching(self, slot_id: int, type_number: int) -> Fetching:
        """Whether hooks fetch work for a slot, and how often; dynamic slots have that of their partitionable one.

        :raises ConfigError: when FetchWorkDelay is not an expression.
        """
        found = self._fetching.get((slot_id, type_number))
        if found is None:
            config, own = self.config, SlotConfig(self.config, slot_id, type_number)
            keywords = [*own.forms("JOB_HOOK_KEYWORD"), "STARTD_JOB_HOOK_KEYWORD"]
            keyword = next((text for knob in keywords if (text := config.get_str(knob).strip())), "")
            every = own.get_text("FetchWorkDelay")
            delay = compiled(own.full_name("FetchWorkDelay"), every) if every else None
            found = self._fetching[slot_id, type_number] = Fetching(keyword, delay)
        return found

    def hook_keyword(self, slot_id: int, type_number: int) -> str:
        """The keyword of a slot's hooks; empty when it has none."""
        return self.fetching(slot_id, type_number).keyword

    def device(self, tag: str, name: str) -> ClassAd:
        """A device as an ad: its properties and those that all of its kind share, and ``Id``."""
        properties = self.device_properties.get(tag, {})
        ad = ClassAd({"Id": name})
        for text in (properties.get("", {}), properties.get(name, {})):
            for attribute, value in text.items():
                property_ = device_property(value)
                ad[attribute] = ExprTree(property_) if isinstance(property_, Expr) else property_
        return ad

    def devices_of(self, amounts: Resources) -> dict[str, Value]:
        """The ads of the devices that a slot was made of, and the properties that all of a kind share."""
        attributes: dict[str, Value] = {}
        for tag, names in (*amounts.devices.items(), *amounts.shared.items()):
            for name in names:
                if (tag, name) not in self._devices:
                    self._devices[tag, name] = Expr(str(self.device(tag, name)))
                attributes[device_attribute(tag, name)] = self._devices[tag, name]
            for prop, text in self._shared_properties(tag, names).items():
                attributes[f"{tag}_{prop}"] = device_property(text)
        return attributes

    def own_attributes(self) -> dict[str, Value]:
        """What the configuration adds to the startd's own ad (STARTD_ATTRS), and the ads of the machine's devices."""
        found: dict[str, Value] = {}
        for tag, names in (*self.resources.devices.items(), *self.resources.shared.items()):
            found.update({device_attribute(tag, name): Expr(str(self.device(tag, name))) for name in names})
        return {**self._startd_attrs(SlotConfig(self.config, 0, 0)), **found}

    def _shared_properties(self, tag: str, names: Sequence[str]) -> dict[str, str]:
        """The properties that all these devices have with the same value: of a slot with one device, all of it."""
        properties = self.device_properties.get(tag, {})
        each = [properties.get(name, {}) for name in dict.fromkeys(names)]
        first = each[0] if each else {}
        own = {prop: text for prop, text in first.items() if all(other.get(prop) == text for other in each)}
        own = {prop: text for prop, text in own.items() if prop.lower() != "id"}
        return {**properties.get("", {}), **own}

    def device_suits(self, tag: str, constraint: str, name: str) -> bool:
        """Whether a device satisfies a slot type's constraint."""
        choice = self._choices.get((tag, constraint))
        if choice is None:
            names = self.resources.devices.get(tag) or self.resources.shared.get(tag, ())
            choice = self._choices[tag, constraint] = Choice.of(constraint, names, key=f"constraint of {tag}")
        return choice.suits(name, self.device(tag, name))

    def expression(self, text: str) -> Value:
        """A knob's text as an attribute: a plain value where it is a literal, else an expression."""
        return literal_or_expression(text)

    def sampled(self, name: str, slot_id: int) -> dict[str, Value]:
        """What was measured last, as a slot sees it."""
        sample = self.sample
        load, condor = sample.loads.get(name, (0.0, 0.0))
        return {
            **sample.machine,
            "LoadAvg": load,
            "CondorLoadAvg": condor,
            "KeyboardIdle": sample.keyboard[0 if slot_id <= self.keyboard_slots else 1],
            "ConsoleIdle": sample.console[0 if slot_id <= self.console_slots else 1],
        }

    def _read_knobs(self, slot_id: int, type_number: int) -> SlotKnobs:
        config, own = self.config, SlotConfig(self.config, slot_id, type_number)
        attrs = self._startd_attrs(own)
        health = health_attributes(own)
        attrs.update(health)
        clauses = {knob: clause_names(own, f"{knob}_REQUIREMENTS_CLAUSES") for knob in ("SLOT", "PSLOT", "DSLOT")}
        for name in dict.fromkeys(name for names_ in clauses.values() for name in names_):
            attrs.setdefault(name, knob_expression(name, (own.get(name) or "").strip()))
        job_attrs = [*JOB_ATTRS, *config.get_list("STARTD_JOB_ATTRS"), *config.get_list("STARTD_JOB_EXPRS")]
        slot_attrs = config.get_list("STARTD_SLOT_ATTRS") + config.get_list("STARTD_SLOT_EXPRS")
        child = config.get_list("STARTD_PARTITIONABLE_SLOT_ATTRS")
        consumption = {}
        if own.get_bool("CONSUMPTION_POLICY"):
            for tag in ("Cpus", "Memory", "Disk", *self.resources.custom):
                knob = f"CONSUMPTION_{tag.upper()}"
                what_it_asks = f"ifThenElse(target.Request{tag} =?= undefined, 0, target.Request{tag})"
                consumption[tag] = own.get_text(knob) or what_it_asks
                compiled(own.full_name(knob), consumption[tag])
        latches = {}
        for name in config.get_list("SYSTEM_STARTD_LATCH_EXPRS") + config.get_list("STARTD_LATCH_EXPRS"):
            latches[name] = compiled(name, (own.get(name) or "").strip() or name)
        return SlotKnobs(
            attrs,
            tuple(dict.fromkeys(job_attrs)),
            tuple(dict.fromkeys([*CHILD_ATTRS, *self.resources.tags, *child])),
            tuple(dict.fromkeys(slot_attrs)),
            own.get_text("SLOT_WEIGHT"),
            consumption,
            clauses["SLOT"],
            clauses["PSLOT"],
            clauses["DSLOT"],
            latches,
            bool(health),
        )

    def _startd_attrs(self, own: SlotConfig) -> dict[str, Value]:
        """STARTD_ATTRS and its relatives, as one slot has them."""
        config = self.config
        names = config.get_list("SYSTEM_STARTD_ATTRS") + config.get_list("STARTD_ATTRS")
        for knob in own.forms("STARTD_ATTRS"):
            names += config.get_list(knob)
        attrs: dict[str, Value] = {}
        for name in config.get_list("STARTD_EXPRS"):  # as in HTCondor, the value is that of the whole machine
            if text := config.get_str(name).strip():
                attrs[name] = knob_expression(name, text)
        for name in dict.fromkeys(names):
            text = (own.get(name) or "").strip()
            taken_out = {form.upper() for form in own.forms(name)} & self._empty
            if text and (own.full_name(name) != name or not taken_out):
                attrs[name] = knob_expression(own.full_name(name), text)
        return attrs

    def _read_requesting(self, slot_id: int, type_number: int) -> Requesting:
        own = SlotConfig(self.config, slot_id, type_number)
        tags = self.resources.tags
        modifiers: dict[str, Expression] = {}
        for tag in ("Cpus", "Memory", "Disk", *tags):
            knob = f"MODIFY_REQUEST_EXPR_REQUEST{tag.upper()}"
            text = own.get_text(knob)
            if text:
                modifiers[tag] = compiled(own.full_name(knob), text)
        consumption = {
            tag: compiled(f"CONSUMPTION_{tag.upper()}", text)
            for tag, text in self.slot_knobs(slot_id, type_number).consumption.items()
        }
        return Requesting(tags, modifiers, self.config.get_bool("MUST_MODIFY_REQUEST_EXPRS"), consumption)


# ------------------------------------------------------------------------------------------------------- the machine


def filler_wanted(config: Config) -> bool:
    """Whether there is filler work: ENABLE_BACKFILL, with the one system that there is, and its program."""
    if not config.get_bool("ENABLE_BACKFILL"):
        return False
    system = config.get_text("BACKFILL_SYSTEM")
    if system.upper() != "BOINC":
        _log.error("ENABLE_BACKFILL is true, but BACKFILL_SYSTEM is %s; only BOINC is known", system or "not set")
        return False
    return bool(config.get_text("BOINC_Executable"))


def machine_resources(config: Config, facts: Mapping[str, Value], custom: list[CustomResource]) -> Resources:
    """What the startd may give out: detected amounts, overridden by NUM_CPUS and MEMORY, less what is reserved."""
    for knob in ("NUM_CPUS", "MEMORY", "RESERVED_MEMORY", "RESERVED_DISK", "RESERVED_SWAP"):
        if (config.find_float(knob) or 0) < 0:
            raise ConfigError(f"{knob} is negative", hint="0 or no value: what is detected", key=knob)
    cpus = config.get_float("NUM_CPUS") or number(facts.get("DetectedCpus"), 1)
    memory = config.find_float("MEMORY") or number(facts.get("DetectedMemory"), 1)
    memory = max(1.0, memory - config.get_float("RESERVED_MEMORY"))
    disk = max(0.0, number(facts.get("TotalDisk")) - 1024 * config.get_float("RESERVED_DISK"))
    swap = max(0.0, number(facts.get("TotalVirtualMemory")) - 1024 * config.get_float("RESERVED_SWAP"))
    return Resources(
        int(cpus) if cpus == int(cpus) else cpus,
        int(memory),
        int(disk),
        int(swap),
        {resource.tag: resource.usable_amount for resource in custom if not resource.shared},
        {resource.tag: resource.usable for resource in custom if resource.devices and not resource.shared},
        {resource.tag: tuple(dict.fromkeys(resource.usable)) for resource in custom if resource.shared},
    )


def slot_types(config: Config, resources: Resources) -> list[SlotType]:
    """The slot types of the configuration, or the default.

    :raises ConfigError: for SLOT_TYPE_0, an unknown share, or a count that is not a number.
    """
    for knob in ("SLOT_TYPE_0", "NUM_SLOTS_TYPE_0"):
        if config.get(knob) is not None:
            raise ConfigError(f"{knob} may not be set", hint="types begin with 1", key=knob)
    types = []
    most = config.get_int("MAX_SLOT_TYPES")
    for type_number in range(1, most + 1):
        text = config.get(f"SLOT_TYPE_{type_number}")
        count = config.get(f"NUM_SLOTS_TYPE_{type_number}")
        if text is None and count is None:
            continue
        shares = parse_shares(text or "auto", list(resources.tags), key=f"SLOT_TYPE_{type_number}")
        for tag, constraint in shares.constraints.items():
            devices = resources.devices.get(tag) or resources.shared.get(tag, ())
            Choice.of(constraint, devices, key=f"SLOT_TYPE_{type_number} (constraint of {tag})")
            if not devices:
                _log.warning(
                    "SLOT_TYPE_%s: %s has no named devices, so %r chooses nothing", type_number, tag, constraint
                )
        types.append(
            SlotType(
                type_number,
                _how_many(config, f"NUM_SLOTS_TYPE_{type_number}"),
                shares,
                config.get_bool(f"SLOT_TYPE_{type_number}_PARTITIONABLE"),
                prefix_of(config, type_number),
                config.get_bool(f"SLOT_TYPE_{type_number}_BACKFILL"),
            )
        )
    if any(slot_type.count for slot_type in types):
        return types
    if types:
        named = ", ".join(f"SLOT_TYPE_{slot_type.number}" for slot_type in types)
        _log.warning("%s: not creating slots of this type: NUM_SLOTS_TYPE_<N> is 0 or not set", named)
    several = config.find_int("NUM_SLOTS")
    whole = config.get_bool("SLOT_TYPE_0_PARTITIONABLE") if config.get("SLOT_TYPE_0_PARTITIONABLE") else None
    if several is None and whole is False:
        several = int(resources.cpus)
    plain = default_types(several, resources.cpus)
    return [
        replace(
            slot_type, prefix=prefix_of(config, 0), partitionable=slot_type.partitionable if whole is None else whole
        )
        for slot_type in plain
    ]


def _unless_set_to_false(config: Config, knob: str) -> bool:
    """A truth knob whose default is about another daemon: true unless the configuration says false."""
    return config.origin(knob) in (None, DEFAULT) or config.get_bool(knob)


def _how_many(config: Config, knob: str) -> int:
    count = config.find_float(knob) or 0
    if count < 0 or count != int(count):
        raise ConfigError(f"{knob} is {count:g}", hint="it is a number of slots", key=knob)
    return int(count)
