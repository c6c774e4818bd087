"""`quire config`: every setting, its value and where it came from."""

from __future__ import annotations

import argparse
import json

from quire.cli import exit_codes
from quire.cli.startup import settings_from
from quire.cli.terminal_text import print_table


def run(args: argparse.Namespace) -> int:
    """Secrets are shown only as set or not set. Raises SettingsError."""
    settings = settings_from(args)
    views = settings.describe()
    if args.json:
        found = [
            {
                "name": view.name,
                "value": view.value_shown,
                "origin": view.origin,
                "section": view.section,
                "description": view.description,
            }
            for view in views
        ]
        print(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        print_table(["setting", "value", "origin"], [[v.name, v.value_shown, v.origin] for v in views])
    for note in settings.notes:
        exit_codes.say(note)
    return exit_codes.OK
