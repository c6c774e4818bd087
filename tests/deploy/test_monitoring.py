"""The dashboard and the alert rules: every metric named there exists, every alert has its runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from quire.telemetry.process_meters import ProcessMeters
from tests.support.environment import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "quire.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "quire-alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
_NAME = re.compile(r"\b[a-z][a-z0-9_]*_[a-z0-9_]+\b(?!\s*\()")
_NOT_OURS = {"by_le", "up"}


def exported() -> set[str]:
    """Every sample name of a process: a counter has `_total`, a histogram three."""
    meters = ProcessMeters("test")
    meters.count_readers(lambda: {"started": 0, "timeout": 0, "memory": 0, "crash": 0})
    names = set()
    for line in meters.render().decode().splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            names |= (
                {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
            )
    return names


def named_in(expression: str) -> set[str]:
    """The metrics of an expression, without functions, labels and the values of labels."""
    bare = re.sub(r"\{[^}]*\}|\"[^\"]*\"|\[[^\]]*\]", " ", expression)
    bare = re.sub(r"\b(by|without|on)\s*\([^)]*\)", " ", bare)
    return set(_NAME.findall(bare)) - {"histogram_quantile"}


def expressions() -> list[tuple[str, str]]:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    shown = [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]
    return shown + [(rule["alert"], rule["expr"]) for rule in RULES]


@pytest.mark.parametrize(("where", "expression"), expressions(), ids=lambda value: str(value)[:40])
def test_every_metric_that_is_named_exists(where: str, expression: str) -> None:
    named = named_in(expression)
    assert named or "up{" in expression, where
    assert named - exported() == set(), where


def test_every_metric_that_exists_is_documented() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    ours = {name for name in families if not name.startswith(("process_", "python_"))}
    assert {name for name in ours if f"`{name}`" not in page and f"`{name}_total`" not in page} == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_has_a_severity_and_a_runbook_that_exists(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.M)
    assert anchor in {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_panels_do_not_overlap_and_ids_are_unique() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) <= 23


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian's package `prometheus`) is missing"
)
@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "quire-alerts.yml"),
        ("test", "rules", "quire-alerts-test.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_promtool_has_no_complaint(command: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *command], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian's package `prometheus`) is missing"
)
def test_expressions_of_the_dashboard_can_be_read_by_prometheus(tmp_path: Path) -> None:
    shown = [one for one in expressions() if not one[0].startswith("Quire")]
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$instance", ".*")}
        for number, (_, expression) in enumerate(shown)
    ]
    target = tmp_path / "panels.yml"
    target.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(target)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
