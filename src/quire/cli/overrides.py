"""Settings given on the command line."""

from __future__ import annotations

import argparse
import os

from quire.settings import Settings, load

_SETTING_OF = {
    "host": "HOST",
    "port": "PORT",
    "data_dir": "DATA_DIR",
    "concurrency": "WORKER_CONCURRENCY",
    "url": "QUIRE_URL",
}


def settings_from(args: argparse.Namespace) -> Settings:
    """The settings, with what the command line has to say about them. Raises SettingsError."""
    given = vars(args)
    overrides = {name: given[option] for option, name in _SETTING_OF.items() if given.get(option) is not None}
    if given.get("debug"):
        overrides["LOG_LEVEL"] = "debug"
    return load(os.environ, overrides)
