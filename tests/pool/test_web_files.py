"""Files of jobs over HTTP, with curl alone: inputs sent, outputs fetched, and what is refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable

from tests.pool.test_web import DAEMONS, Caller, Curl
from tests.support import host
from tests.support.pool import Pool


@host.needs(host.programs("curl"))
def test_inputs_are_sent_and_outputs_fetched(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    token = pool.run("token", "create", "-identity", "root@here", "-authz", "WRITE").stdout.strip()
    caller = Caller(pool)
    curl = Curl(pool, f"{caller.base}/api/v1", token)
    other = Curl(pool, f"{caller.base}/api/v1", pool.run(
        "token", "create", "-identity", "mallory@here", "-authz", "WRITE").stdout.strip())  # fmt: skip
    pool.until("slots", lambda: curl("slots"))
    pool.until("the schedd's ad", lambda: curl("schedds?projection=Name"))
    program, data = pool.root / "sum.sh", pool.root / "numbers"
    program.write_text("#!/bin/sh\nset -e\nwc -c < big > size\nmkdir d\ncat numbers > d/copy\necho printed\n")
    data.write_bytes(bytes(range(256)))
    big = pool.root / "big"
    big.write_bytes(b"x" * 5_000_001)

    description = {
        "executable": "sum.sh", "transfer_input_files": "numbers, big", "output": "out", "error": "err",
        "transfer_output_files": "size, d", "request_memory": "50M", "request_disk": "20M",
    }  # fmt: skip
    refused = curl.asked("jobs?spool=1", {"description": {**description, "initialdir": "/tmp"}})
    assert refused.status == 400 and "leave it out" in refused.json["hint"]
    made = curl.asked("jobs?spool=1", {"description": description})
    assert made.status == 201, made
    cluster = made.json["cluster"]
    job = f"{cluster}.0"
    assert curl(f"jobs/{job}?projection=HoldReasonCode")[0]["HoldReasonCode"] == 16

    def put(who: Curl, name: str, file: str, more: str = "") -> tuple[int, dict[str, object]]:
        reply = who.asked(f"jobs/{cluster}/input/{name}{more}", None, "--path-as-is", "-H", "Expect:", "-T", file)
        return reply.status, reply.json

    assert put(curl, "sum.sh", str(program), "?executable=1") == (
        201, {"job": str(cluster), "name": "sum.sh", "bytes": program.stat().st_size},
    )  # fmt: skip
    assert put(curl, "numbers", str(data))[0] == 201
    assert put(curl, "big", str(big))[1]["bytes"] == 5_000_001
    for name in ("../out", "d/../../out", "%2e%2e/out", "/etc/passwd", "d//x", "a%00b", "./x"):
        status, said = put(curl, name, str(data))
        assert status == 400 and "is not a name below" in str(said["detail"]), (name, said)
    assert put(other, "numbers", str(program))[0] == 403
    assert put(Curl(pool, f"{caller.base}/api/v1", "nonsense"), "numbers", str(data))[0] == 401
    assert other.asked(f"jobs/{cluster}/input", None, "-X", "POST").status == 403
    assert curl(f"jobs/{job}?projection=JobStatus")[0]["JobStatus"] == 5
    assert curl(f"jobs/{cluster}/input", {}) == {"success": 1}
    assert "does not wait for spooled files" in str(put(curl, "numbers", str(data))[1]["detail"])

    pool.until("it ends", lambda: curl(f"jobs/{job}?projection=JobStatus")[0]["JobStatus"] == 4)
    assert curl.asked(f"jobs/{job}/output/d/copy").body == data.read_bytes()
    assert curl.asked(f"jobs/{job}/output/size").body.strip() == b"5000001"
    assert curl.asked(f"jobs/{job}/output/none").status == 404
    assert curl.asked(f"jobs/{job}/output/../numbers", None, "--path-as-is").status == 400
    assert other.asked(f"jobs/{job}/output").status == 403
    assert Curl(pool, f"{caller.base}/api/v1", "").asked(f"jobs/{job}/output").status == 401
    archive = curl.asked(f"jobs/{cluster}/output")
    assert archive.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(archive.body)) as found:
        assert found.testzip() is None
        assert {f"{job}/out", f"{job}/err", f"{job}/size", f"{job}/d/copy"} <= set(found.namelist())
        assert found.read(f"{job}/out") == b"printed\n" and found.read(f"{job}/d/copy") == data.read_bytes()
    assert curl(f"jobs/{job}?projection=JobStatus")[0]["JobStatus"] == 4, "who reads changes nothing"
    assert curl("jobs/act", {"action": "remove", "jobs": [str(cluster)]}) == {"success": 1}
    pool.until("it leaves the queue", lambda: curl("jobs") == [])
    paths = json.loads(curl.asked("openapi.json").body)["paths"]
    file = paths["/api/v1/jobs/{job}/input/{name}"]["put"]["requestBody"]["content"]
    assert file == {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
