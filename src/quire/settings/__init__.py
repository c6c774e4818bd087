"""The settings: the only part of Quire that reads the environment."""

from __future__ import annotations

from quire.settings.ai_settings import AiSettings
from quire.settings.bucket_settings import AwsSettings, CloudsSettings
from quire.settings.loading import load
from quire.settings.reading_settings import ImagesSettings, LimitsSettings, OcrSettings, ReadingSettings
from quire.settings.retention_settings import RetentionSettings
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
    ObjectsSettings,
    Settings,
    SettingView,
    WorkerSettings,
)
from quire.settings.setting_kinds import ApiKey
from quire.settings.setting_tables import AiLimit, AiPrice, AiServer
from quire.settings.settings_page import render_markdown
from quire.settings.telemetry_settings import LoggingSettings, MetricsSettings, TracingSettings

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
    "MetricsSettings",
    "ObjectsSettings",
    "OcrSettings",
    "ReadingSettings",
    "RetentionSettings",
    "SettingView",
    "Settings",
    "TracingSettings",
    "WorkerSettings",
    "load",
    "render_markdown",
]
