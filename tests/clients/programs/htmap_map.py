"""HTMap maps a function over inputs, as one cluster of jobs, and fetches the outputs.

HTMap 0.6.1 reads the component's number from the submit event's notes, where HTCondor 25 has the batch name if there is
one; with HTCondor's own as with ours it needs maps without a batch name.
"""

import sys
from pathlib import Path

import htmap
from waiting import LIMIT_S, until

htmap.settings["DELIVERY_METHOD"] = "assume"
htmap.settings["MAP_OPTIONS"] = {
    "JobBatchName": "",
    "request_memory": "100MB",
    "request_disk": "10MB",
    "environment": f"PATH={Path(sys.executable).parent}:/usr/bin:/bin",
}


def double(x: int) -> int:
    return 2 * x


if __name__ == "__main__":
    mapped = htmap.map(double, range(4), tag="doubled")
    assert list(mapped.iter(timeout=LIMIT_S)) == [0, 2, 4, 6]
    held = htmap.map(double, [1], tag="held", map_options=htmap.MapOptions(requirements="false"))
    held.hold()
    # HTMap reads the status from the event log, which a schedd writes after its answer.
    until(lambda: [status.name for status in held.component_statuses], lambda names: names == ["HELD"])
    held.remove()
    print("done")
