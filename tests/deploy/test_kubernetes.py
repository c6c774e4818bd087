"""The Kubernetes manifests, as far as they can be proved without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from quire.cli.arguments import parse
from quire.cli.worker_command import QUEUES as QUEUE_NAMES
from quire.cli.worker_command import kinds_of
from quire.coordination.keys import QUEUES
from quire.domain.job import UnitKind
from quire.settings.sections import declarations
from tests.support.environment import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
FOREIGN = ("keda.sh/", "monitoring.coreos.com/", "kustomize.config.k8s.io/")
VERSIONS = ("1.30.0", kubernetes_validate.latest_version())


def resources() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for one in yaml.safe_load_all(path.read_text()):
            found.append((f"{path.name} {one['kind']} {one.get('metadata', {}).get('name', '')}", one))
    return found


RESOURCES = resources()
DEPLOYMENTS = {one["metadata"]["name"]: one for _, one in RESOURCES if one["kind"] == "Deployment"}


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "resource"), RESOURCES, ids=[name for name, _ in RESOURCES])
def test_resource_fits_the_schema_of_kubernetes(name: str, resource: dict[str, Any], version: str) -> None:
    if resource["apiVersion"].startswith(FOREIGN):
        assert resource["spec" if resource["kind"] != "Kustomization" else "resources"], name
        return
    kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_pod_fits_the_restricted_standard_and_is_bounded(name: str) -> None:
    pod = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    one = container(DEPLOYMENTS[name])
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] > 30  # SHUTDOWN_TIMEOUT
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one["resources"]["limits"]["memory"]
    assert one["resources"]["requests"]["cpu"]
    assert {"startupProbe", "livenessProbe"} <= set(one)


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_pod_runs_a_command_that_exists(name: str) -> None:
    assert callable(parse(container(DEPLOYMENTS[name])["args"]).load_command())


def test_every_queue_has_a_worker_and_serve_has_none() -> None:
    served: set[UnitKind] = set()
    batching = False
    for deployment in DEPLOYMENTS.values():
        args = container(deployment)["args"]
        if args[0] == "worker":
            names = args[2].split(",")
            assert set(names) <= set(QUEUE_NAMES)
            served |= set(kinds_of(names))
            batching |= "batch" in names
    assert served == set(UnitKind)
    assert batching
    assert {"name": "RUN_DISPATCHER", "value": "0"} in container(DEPLOYMENTS["quire-serve"])["env"]


def test_settings_that_are_named_exist() -> None:
    named = set()
    for _, one in RESOURCES:
        named |= set(one.get("data", {})) | set(one.get("stringData", {}))
    for deployment in DEPLOYMENTS.values():
        named |= {variable["name"] for variable in container(deployment).get("env", [])}
    assert named - set(declarations()) == set()


def test_scaling_names_deployments_and_streams_that_exist() -> None:
    known = {stream for queue in QUEUES.values() for stream in queue.streams}
    scaled = [one for _, one in RESOURCES if one["kind"] in ("ScaledObject", "HorizontalPodAutoscaler")]
    assert scaled
    for one in scaled:
        assert one["spec"]["scaleTargetRef"]["name"] in DEPLOYMENTS
        for trigger in one["spec"].get("triggers", []):
            # With a group KEDA would count claimed entries, of which there are none while there is no worker.
            assert "consumerGroup" not in trigger["metadata"]
            assert trigger["metadata"]["stream"] in known


def test_slow_pages_and_the_vault_go_to_zero_with_keda() -> None:
    least = {
        one["metadata"]["name"]: one["spec"]["minReplicaCount"]
        for _, one in RESOURCES
        if one["kind"] == "ScaledObject"
    }
    assert least == {"quire-pages": 0, "quire-vault": 0, "quire-reader": 1}


def test_selectors_find_the_pods_that_they_mean() -> None:
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in DEPLOYMENTS.values()]
    for name, one in RESOURCES:
        spec = one.get("spec", {})
        selector = spec.get("selector", {})
        wanted = (
            selector.get("matchLabels", selector) if one["kind"] == "Service" else selector.get("matchLabels")
        )
        if one["kind"] in ("Service", "PodDisruptionBudget", "Deployment"):
            assert any(wanted.items() <= own.items() for own in labels), name


def test_kustomization_lists_files_that_exist_and_one_way_of_scaling() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    there = {path.name for path in FOLDER.glob("*.yaml")}
    assert set(listed) <= there
    assert there - set(listed) == {"kustomization.yaml", "secret.example.yaml", "scaling-hpa.yaml"}


def test_example_has_no_real_secret() -> None:
    values = yaml.safe_load((FOLDER / "secret.example.yaml").read_text())["stringData"].values()
    assert all(not value or "replace" in value or "svc" in value or value == "quire" for value in values)
    assert not list(Path(FOLDER).glob("secret.yaml"))
