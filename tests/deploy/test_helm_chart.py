"""The Helm chart, by helm itself: it is sound, refuses wrong values, and deploy/kubernetes is what it renders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.environment import ROOT
from tests.support.waiting import DEADLINE_S

CHART = ROOT / "deploy" / "helm" / "quire"
HELM = Path(sys.executable).with_name("helm")
pytestmark = pytest.mark.skipif(not HELM.exists(), reason="there is no wheel of helm for this platform")


def helm(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *args], capture_output=True, text=True, check=False, timeout=DEADLINE_S)


def rendered(*options: str) -> list[dict[str, Any]]:
    done = helm("template", "papers", str(CHART), "--namespace", "elsewhere", *options)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def test_chart_has_nothing_that_the_linter_complains_about() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_plain_manifests_are_what_the_chart_renders(tmp_path: Path) -> None:
    subprocess.run(
        ["sh", str(ROOT / "deploy" / "helm" / "render.sh"), str(tmp_path)],
        env={**os.environ, "HELM": str(HELM)},
        check=True,
        timeout=DEADLINE_S,
    )
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(made) == 8
    stored = {name: (ROOT / "deploy" / "kubernetes" / name).read_text() for name in made}
    assert stored == made, "run deploy/helm/render.sh"


def test_other_release_fits_the_schemas_when_every_option_is_used() -> None:
    found = rendered(
        *("--set", "ingress.enabled=true,ingress.tlsSecret=tls,scaling.kind=hpa"),
        *("--set", "image.repository=registry.local/quire,image.tag=v2"),
    )
    kinds = {one["kind"] for one in found}
    assert {"Ingress", "HorizontalPodAutoscaler", "NetworkPolicy", "Deployment"} <= kinds
    assert "ScaledObject" not in kinds
    for one in found:
        assert one["metadata"]["namespace"] == "elsewhere"
        if not one["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(one, "1.30.0", strict=True)
    names = {one["metadata"]["name"] for one in found if one["kind"] == "Deployment"}
    assert names == {f"papers-{name}" for name in ("serve", "reader", "pages", "vault", "batch")}


def test_keda_gets_the_password_of_redis_by_reference() -> None:
    found = rendered("--set", "scaling.authenticationRef=redis-password")
    triggers = [
        trigger for one in found if one["kind"] == "ScaledObject" for trigger in one["spec"]["triggers"]
    ]
    assert triggers
    assert all(one["authenticationRef"] == {"name": "redis-password"} for one in triggers)


@pytest.mark.parametrize(
    "wrong", ["scaling.kind=sometimes", "existingSecret=", "workers.pages.queue=slow", "config.PORT=8080"]
)
def test_chart_refuses_values_that_it_would_misread(wrong: str) -> None:
    done = helm("template", "quire", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
