"""The settings: the only part of Quire that reads the environment."""

from __future__ import annotations

from quire.settings.ai import AiSettings
from quire.settings.aws import AwsSettings
from quire.settings.clouds import CloudsSettings
from quire.settings.kinds import ApiKey
from quire.settings.page import render_markdown
from quire.settings.reading import ImagesSettings, LimitsSettings, OcrSettings, ReadingSettings
from quire.settings.retention import RetentionSettings
from quire.settings.sections import (
    AuthSettings,
    CallbacksSettings,
    CatalogSettings,
    ClientSettings,
    CoordinationSettings,
    DownloadsSettings,
    GeneralSettings,
    HttpSettings,
    JobsSettings,
    LoggingSettings,
    ObjectsSettings,
    Settings,
    SettingView,
    WorkerSettings,
)
from quire.settings.sources import load
from quire.settings.tables import AiLimit, AiPrice, AiServer

__all__ = [
    "AiLimit",
    "AiPrice",
    "AiServer",
    "AiSettings",
    "ApiKey",
    "AuthSettings",
    "AwsSettings",
    "CallbacksSettings",
    "CatalogSettings",
    "ClientSettings",
    "CloudsSettings",
    "CoordinationSettings",
    "DownloadsSettings",
    "GeneralSettings",
    "HttpSettings",
    "ImagesSettings",
    "JobsSettings",
    "LimitsSettings",
    "LoggingSettings",
    "ObjectsSettings",
    "OcrSettings",
    "ReadingSettings",
    "RetentionSettings",
    "SettingView",
    "Settings",
    "WorkerSettings",
    "load",
    "render_markdown",
]
