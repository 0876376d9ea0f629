"""The batch script, the image recipe and the manifests of glide-ins: they fit the commands, and each other."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.host.glidein import _parser
from slotwise.cli.pool.demand import shape_of_text
from slotwise.config import load
from slotwise.wire import address

from tests.support import host
from tests.support.waiting import LIMIT_S, block_until

FILES = Path(__file__).resolve().parents[2] / "packaging" / "glideins"
MANIFESTS = sorted((FILES / "kubernetes").glob("*.yaml"))
#: What runs pods, and where their template is.
PODS = {
    "Deployment": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def objects() -> list[dict[str, Any]]:
    return [found for path in MANIFESTS for found in yaml.safe_load_all(path.read_text())]


def template(found: dict[str, Any]) -> dict[str, Any]:
    for key in PODS[found["kind"]]:
        found = found[key]
    return found


def pods() -> list[Any]:
    return [
        pytest.param(found, id=f"{found['kind']}-{found['metadata']['name']}")
        for found in objects()
        if found["kind"] in PODS
    ]


def test_every_object_has_a_kind_a_version_and_the_namespace() -> None:
    found = objects()
    assert {each["kind"] for each in found} >= {"Deployment", "DaemonSet", "StatefulSet", "CronJob", "ScaledObject"}
    for each in found:
        assert each["apiVersion"] and each["metadata"]["name"]
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "slotwise"


@pytest.mark.parametrize("found", pods())
def test_pods_have_no_rights_and_are_found_by_their_labels(found: dict[str, Any]) -> None:
    pod = template(found)
    if "selector" in found["spec"]:
        assert found["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 10000
    assert found["kind"] == "CronJob" or spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "USER 10000:10000" in (FILES / "Containerfile").read_text()


@pytest.mark.parametrize("name", ["glideins.yaml", "glideins-daemonset.yaml"])
def test_glide_ins_are_called_as_the_command_takes_it(name: str) -> None:
    spec = template(yaml.safe_load((FILES / "kubernetes" / name).read_text()))["spec"]
    (container,) = spec["containers"]
    command, *words = container["args"]
    options = _parser(Invocation.of_process()).take(words)
    assert command == "glidein" and options is not None
    assert int(options.notice.rstrip("s")) < spec["terminationGracePeriodSeconds"]
    assert options.workdir in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["env"][0]["name"] == "SLOTWISE_GLIDEIN_TOKEN"
    assert container["resources"]["limits"] == container["resources"]["requests"]


@pytest.mark.parametrize("name", ["central-manager", "access-point"])
def test_the_configuration_of_the_pool_is_sound(name: str, tmp_path: Path) -> None:
    (found,) = (each for each in objects() if each["kind"] == "ConfigMap")
    file = tmp_path / name
    file.write_text(found["data"][name])
    config = load(str(file), env={"SLOTWISE_COLLECTOR": "central-manager.slotwise:9618?key=K"})
    assert config.get_bool("SLOTWISE_ADDRESS_KEY")
    if name == "access-point":
        assert address.configured_collector(config) == "central-manager.slotwise:9618?key=K"
    else:
        assert address.configured_collector(config) is None, "it is the central manager"
    (service,) = (each for each in objects() if each["kind"] == "Service" and each["metadata"]["name"] == name)
    assert service["spec"]["clusterIP"] == "None", "pods have names of their own"


# ---- the autoscaler


class Cluster(http.server.BaseHTTPRequestHandler):
    """Takes what is said to the API of Kubernetes."""

    said: ClassVar[list[tuple[str, str, Any]]] = []

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.said.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def cluster() -> Iterator[int]:
    Cluster.said = []
    server = http.server.HTTPServer(("127.0.0.1", 0), Cluster)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def acting_slotwise(directory: Path, script: str) -> str:
    """A PATH with a ``slotwise`` that does what ``script`` says."""
    directory.mkdir()
    path = directory / "slotwise"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


@pytest.mark.parametrize(("needed", "used", "replicas"), [(3, 2, 5), (0, 0, 0), (100, 2, 50)])
def test_the_deployment_follows_the_demand(cluster: int, tmp_path: Path, needed: int, used: int, replicas: int) -> None:
    (job,) = (each for each in objects() if each["kind"] == "CronJob")
    (container,) = template(job)["spec"]["containers"]
    for name in ("token", "namespace"):
        (tmp_path / name).write_text(f"{'slotwise' if name == 'namespace' else 'secret'}\n")
    demand = json.dumps({"supply": {"slots": needed, "jobs": needed, "jobs_too_large": 0}})
    script = (
        'test "$(cat "$SLOTWISE_TOKEN_FILE")" = reads || exit 1\n'
        f"case $1 in demand) echo '{demand}';; status) echo '{json.dumps([{}] * used)}';; esac"
    )
    done = subprocess.run(
        [FILES / "kubernetes" / "slotwise-autoscale", *container["args"]],
        env={
            "PATH": acting_slotwise(tmp_path / "bin", script),
            "SLOTWISE_COLLECTOR": "cm:9618",
            "SLOTWISE_TOKEN": "reads",
            "SERVICE_ACCOUNT": str(tmp_path),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(cluster),
            "KUBERNETES_SCHEME": "http",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path = "/apis/apps/v1/namespaces/slotwise/deployments/glideins/scale"
    assert Cluster.said == [(path, "Bearer secret", {"spec": {"replicas": replicas}})]
    assert shape_of_text(container["args"][container["args"].index("--slots") + 1]).cpus == 4


# ---- the batch script


def test_the_batch_script_hands_signals_on_and_ends_as_the_glide_in_does(tmp_path: Path) -> None:
    host.need(host.programs("bash"))
    bash = shutil.which("bash")
    assert bash is not None
    script = 'echo "$@" > args; trap "echo told; exit 7" TERM; echo ready > ready; while :; do sleep 0.05; done'
    env = {"PATH": acting_slotwise(tmp_path / "bin", script), "HOME": str(tmp_path), "SLURM_CLUSTER_NAME": "big"}
    running = subprocess.Popen(
        [bash, FILES / "slotwise-glidein.sbatch", "--cpus", "3"], env=env, cwd=tmp_path, stdout=subprocess.PIPE
    )

    def ready() -> bool:
        assert running.poll() is None
        return (tmp_path / "ready").exists()

    block_until(ready)
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=LIMIT_S)
    assert (output, running.returncode) == (b"told\n", 7)
    words = (tmp_path / "args").read_text().split()
    assert words[0] == "glidein" and words[-2:] == ["--cpus", "3"] and words[words.index("--site") + 1] == "big"
    assert _parser(Invocation.of_process()).take(words[1:]) is not None
