"""`quire doctor`: checks this installation and says what to do."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict

from quire.cli import exit_codes, interrupts
from quire.cli.doctor_checks import examine
from quire.cli.doctor_findings import Finding, FindingLevel
from quire.cli.exit_codes import printable
from quire.cli.startup import errors_only, everything, settings_from
from quire.errors import SettingsError
from quire.settings import Settings


def run(args: argparse.Namespace) -> int:
    """Exit code 1 if anything fails; warnings don't count."""
    everything() if args.debug else errors_only()
    try:
        settings = settings_from(args)
    except SettingsError as error:
        findings = [Finding("settings", FindingLevel.FAIL, line) for line in error.public.splitlines()]
        if not args.json:
            for one in findings:
                _show(one)
    else:
        with interrupts.as_keyboard_interrupt():
            findings = asyncio.run(interrupts.stoppable(_examine(settings, show=not args.json)))
    failed = any(one.level is FindingLevel.FAIL for one in findings)
    if args.json:
        shown = {"ok": not failed, "findings": [asdict(one) for one in findings]}
        print(json.dumps(shown, ensure_ascii=False, indent=2))
    return exit_codes.FAILED if failed else exit_codes.OK


async def _examine(settings: Settings, *, show: bool) -> list[Finding]:
    findings = [
        Finding("settings", FindingLevel.OK, f"{len(settings.origins)} given, the others at their defaults")
    ]
    if show:
        _show(findings[0])
    async for one in examine(settings):
        findings.append(one)
        if show:
            _show(one)
    return findings


def _show(finding: Finding) -> None:
    print(printable(f"{finding.level.value:<4}  {finding.check:<14}  {finding.text}"), flush=True)
    if finding.advice:
        print(printable(f"{'':<22}→ {finding.advice}"), flush=True)
