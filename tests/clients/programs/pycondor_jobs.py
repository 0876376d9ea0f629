"""pycondor writes submit files, submits them, and reads the version and the queue."""

import pycondor
from pycondor.utils import get_condor_version, get_queue

if __name__ == "__main__":
    assert get_condor_version() >= (25, 0), get_condor_version()
    job = pycondor.Job(
        "greet",
        "/bin/echo",
        submit="submit",
        output="output",
        error="error",
        log="log",
        request_memory="20M",
        extra_lines=["request_disk = 1M"],
    )
    job.add_arg("hello", name="first")
    job.add_arg("world")
    job.build_submit()
    print(get_queue())
    print("done")
