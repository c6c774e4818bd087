"""Limits of a single model by the sources' names."""

from __future__ import annotations

import pytest

from quire.errors import SettingsError
from quire.settings import load
from quire.settings.setting_tables import AiLimit

MODELS = {
    "OPENAI_PRIMARY_MODEL": "gpt-4.1",
    "OPENAI_SECONDARY_MODEL": "gpt-4o",
    "OPENAI_FAST_MODEL": "gpt-4.1-mini",
}


def limits(**environ: str) -> dict[str, AiLimit]:
    return {one.model: one for one in load(MODELS | environ).ai.limits}


def test_the_model_with_exactly_that_name_is_limited_when_others_contain_it() -> None:
    found = limits(OPENAI_GPT41_RPM="500", OPENAI_GPT41_TPM="30000", MAX_INFLIGHT_OPENAI_GPT41="4")
    assert found == {"gpt-4.1": AiLimit("openai", "gpt-4.1", 500, 30_000, 4)}


def test_every_model_of_a_family_is_limited_when_the_name_is_a_part() -> None:
    found = limits(ANTHROPIC_SONNET_RPM="50", ANTHROPIC_PRIMARY_MODEL="claude-3-5-sonnet-20241022")
    assert found["claude-3-5-sonnet-20241022"].rpm == 50


def test_ai_limits_has_precedence_when_both_are_given() -> None:
    found = limits(
        OPENAI_GPT4O_RPM="5",
        AI_LIMITS='{"openai:gpt-4o": {"rpm": 7, "max_inflight": 3}}',
        OPENAI_GPT4O_TPM="9",
    )
    assert found == {"gpt-4o": AiLimit("openai", "gpt-4o", 7, 9, 3)}


def test_a_name_is_reported_when_no_configured_model_has_it() -> None:
    settings = load(MODELS | {"OPENAI_GPT9_RPM": "5"})
    assert not settings.ai.limits
    assert any("OPENAI_GPT9_RPM has no effect" in note for note in settings.notes)


def test_the_start_stops_when_a_limit_is_not_a_number() -> None:
    with pytest.raises(SettingsError, match="MAX_INFLIGHT_OPENAI_GPT41"):
        load(MODELS | {"MAX_INFLIGHT_OPENAI_GPT41": "many"})


def test_variables_of_other_programs_are_left_out_when_they_look_alike() -> None:
    assert not limits(MYAPP_GPT41_RPM="5", MAX_INFLIGHT_OTHER_GPT41="x")
