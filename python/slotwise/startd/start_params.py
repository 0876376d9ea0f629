"""What a start command has besides the ads: the limits that the startd has decided on (StartJob.limits)."""

from __future__ import annotations

from slotwise.classad.evaluate import Value
from slotwise.config import Config
from slotwise.config.slot_names import prefix_of
from slotwise.startd.policy.slot_config import SlotConfig
from slotwise.startd.records.slot_record import SlotRecord

#: Knobs whose values travel with each run, so that a slot may have its own (SLOT<N>_..., SLOT_TYPE_<N>_...).
_COPIED = (
    "CGROUP_MEMORY_LIMIT_POLICY", "CGROUP_HARD_MEMORY_LIMIT_EXPR", "DISABLE_SWAP_FOR_JOB",
    "JOB_RENICE_INCREMENT", "MOUNT_UNDER_SCRATCH", "EXECUTE", "STARTD_ENFORCE_DISK_LIMITS",
)  # fmt: skip


def limits_of(record: SlotRecord, config: Config, known: dict[str, dict[str, Value]]) -> dict[str, Value]:
    """The ad of limits: amounts, user, times, and the knobs above, spelled as in the configuration.

    ``known`` remembers the knobs by slot name as long as the configuration stays.
    """
    if record.name not in known:
        known[record.name] = _knobs_of(record, config)
    run = record.slot.run
    attributes: dict[str, Value] = {
        "SlotName": record.name,
        "SlotId": record.slot_id,
        "Cpus": record.total.cpus,
        "Memory": record.total.memory_mib,
        "Disk": record.total.disk_kib,
        "VirtualMemory": record.total.swap_kib,
        "MachineMaxVacateTime": int(run.machine_vacate_s) if run else 600,
        **known[record.name],
    }
    for tag, names in (*record.total.devices.items(), *record.total.shared.items()):
        if names:
            attributes[f"Assigned{tag}"] = ",".join(names)
            attributes[f"EnvironmentFor{tag}"] = " ".join(config.get_list(f"ENVIRONMENT_FOR_Assigned{tag}"))
    return attributes


def _knobs_of(record: SlotRecord, config: Config) -> dict[str, Value]:
    own = SlotConfig(config, record.slot_id, record.type_number)
    name = f"{prefix_of(config, record.type_number)}{record.slot_id}".upper()
    slot_user = config.get(f"{name}_{record.dslot_id}_USER") if record.dslot_id else None
    slot_user = slot_user or config.get(f"{name}_USER") or config.get("SLOT_USER")
    attributes: dict[str, Value] = {"KillingTimeout": config.get_int("KILLING_TIMEOUT")}
    if slot_user:
        attributes["SlotUser"] = slot_user.strip()
    for knob in _COPIED:
        forms = (config.get(form) for form in (*own.forms(knob), knob))
        value = next((found for found in forms if found is not None), None)
        if value is not None and value.strip():
            attributes[knob] = value.strip()
    return attributes
