"""Devices, ids and measurements of GPUs, without libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.daemon import own_programs
from slotwise.errors import UsageError
from slotwise.gpus.device import Device, gpu_id, rocm_uuid
from slotwise.gpus.libraries import NvmlDevices
from slotwise.gpus.report import Request, discover
from slotwise.gpus.simulated import parse_models
from slotwise.gpus.utilization import Meter
from slotwise.startd.slot_types import gpu_detection
from slotwise.startd.slot_types.custom import CustomResource

from tests.support.configured import configured

UUID = "c0ffee00-1111-2222-3333-444455556666"


class Pretended:
    """Libraries that tell what a test gives them, and record which were asked."""

    def __init__(self, cuda: list[Device] | None = None, hip: list[Device] | None = None) -> None:
        self.asked: list[str] = []
        self._cuda, self._hip = cuda, hip
        self.lost: set[str] = set()

    def cuda(self) -> list[Device] | None:
        self.asked.append("cuda")
        return self._cuda

    def nvml(self) -> NvmlDevices | None:
        self.asked.append("nvml")
        return None

    def hip(self) -> list[Device] | None:
        self.asked.append("hip")
        return self._hip

    def opencl(self) -> list[Device] | None:
        self.asked.append("opencl")
        return None

    def is_lost(self, uuid: str) -> bool:
        return uuid in self.lost

    def measured(self, uuid: str) -> dict[str, str] | None:
        return None


def test_libraries_are_asked_in_turn_until_one_has_devices() -> None:
    nothing, amd = Pretended(), Pretended(hip=[Device(name="MI", rocm=6)])
    assert discover(Request(), nothing).lines == ["DetectedGPUs=0"]
    assert nothing.asked == ["cuda", "hip", "opencl"]
    assert discover(Request(), amd).lines == ['DetectedGPUs="GPU0"']
    assert amd.asked == ["cuda", "hip"]
    only = Pretended(hip=[Device(name="MI", rocm=6)])
    assert discover(Request(kinds=("cuda",)), only).lines == ["DetectedGPUs=0"] and only.asked == ["cuda"]


def test_a_device_without_a_uuid_is_called_by_its_index_and_said_so() -> None:
    library = Pretended(cuda=[Device(uuid=UUID), Device()])
    assert discover(Request(), library).lines == ['DetectedGPUs="CUDA0, CUDA1"']
    asked = discover(Request(ids="short"), library)
    assert asked.lines[-1] == 'DetectedGPUs="GPU-c0ffee00, CUDA1"' and "no UUID" in asked.lines[0] and asked.warnings


def test_devices_that_the_driver_has_lost_are_named_when_asked_for() -> None:
    library = Pretended(cuda=[Device(uuid=UUID), Device(uuid=UUID.replace("c0ffee00", "c0ffee01"))])
    library.lost = {UUID}
    assert discover(Request(), library).lines == ['DetectedGPUs="GPU-c0ffee00, GPU-c0ffee01"']
    assert discover(Request(check=True), library).lines[1:] == ['OfflineGPUs="GPU-c0ffee00"']
    library.lost = set()
    assert discover(Request(check=True), library).lines == ['DetectedGPUs="GPU-c0ffee00, GPU-c0ffee01"']


def test_a_device_cannot_write_lines_or_end_its_text() -> None:
    name = 'evil" ]\nGPUs = 9\\'
    [_, common, device] = discover(Request(properties=True), Pretended(cuda=[Device(uuid=UUID, name=name)])).lines
    assert common == f'Common=[ DeviceName="evil_ ]_GPUs = 9_"; DeviceUuid="{UUID}"; ]'
    assert device == 'GPU_c0ffee00=[ id="GPU-c0ffee00"; ]'


@given(st.text(st.sampled_from("0123456789abcdef-MIGPU/"), max_size=50))
def test_short_ids_begin_like_long_ones(uuid: str) -> None:
    assert gpu_id(uuid, short=False).startswith(gpu_id(uuid, short=True))


def test_bytes_that_are_no_uuid_make_none() -> None:
    assert rocm_uuid(b"\0" * 16, 1) == rocm_uuid(b"\xff" * 16, 1) == rocm_uuid(b"0123456789abcdef", 0) == ""
    assert rocm_uuid(bytes(range(16)), 0) == "00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize("text", ["9", "x", "-1", "1,x", "1,-2"])
def test_models_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="range of 0-8"):
        parse_models(text)


def test_busy_time_is_what_samples_cover() -> None:
    meter = Meter(0, UUID)
    meter.take([(2_000_000, 50), (1_000_000, 100)], 5)  # of the first one nobody knows how long it lasted
    meter.take([(3_000_000, 100), (2_000_000, 50)], 3 * 2**20 + 1)
    lines = meter.report()
    assert lines[1:3] == ["UptimeGPUsSeconds = 1.500000", "UptimeGPUsMemoryPeakUsage = 4"]
    assert meter.report()[1:3] == ["UptimeGPUsSeconds = 0.000000", "UptimeGPUsMemoryPeakUsage = 0"]


@pytest.mark.parametrize("value", ["", "0", "false", "False", "true", "1"])
def test_detection_that_is_switched_off_runs_nothing(value: str) -> None:
    config = configured(STARTD_DETECT_GPUS=value)
    assert gpu_detection.detect(config, may_have_gpus=True, offline=(), run_inventory=_never) is None


def test_detection_runs_where_there_may_be_gpus_or_where_it_is_configured() -> None:
    asked = []

    def run(tag: str, command: str) -> str:
        asked.append((tag, command))
        return 'DetectedGPUs="GPU-1, GPU-2"\n'

    none = gpu_detection.detect(configured(), may_have_gpus=False, offline=(), run_inventory=_never)
    assert none == CustomResource("GPUs", 0)
    found = gpu_detection.detect(configured(), may_have_gpus=True, offline=("GPU-2",), run_inventory=run)
    assert found is not None and (found.devices, found.usable) == (("GPU-1", "GPU-2"), ("GPU-1",))
    written = configured(STARTD_DETECT_GPUS="-properties -by-index")
    assert gpu_detection.detect(written, may_have_gpus=False, offline=(), run_inventory=run) is not None
    assert [command for _, command in asked] == [
        "condor_gpu_discovery -properties",
        "condor_gpu_discovery -properties -by-index",
    ]


def _never(tag: str, command: str) -> str:
    raise AssertionError(f"{command} was run for {tag}")


def test_htcondors_own_programs_run_where_they_are_installed(tmp_path: Path) -> None:
    installed = tmp_path / "condor_gpu_discovery"
    ours = [sys.executable, "-m", "slotwise", "gpu-discovery", "-x", "-check"]
    assert own_programs.to_run([str(installed), "-x"]) == ours
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    assert own_programs.to_run([str(installed), "-x"]) == [str(installed), "-x"]
    assert own_programs.to_run(["/nowhere/else", "-x"]) == ["/nowhere/else", "-x"]
