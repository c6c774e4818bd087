"""The settings of AI reading: providers, models, limits, cost, prompt."""

from __future__ import annotations

from dataclasses import dataclass

from quire.settings import setting_kinds, setting_tables
from quire.settings.setting_kinds import setting
from quire.settings.setting_tables import AiLimit, AiPrice, AiServer

SYSTEM_PROMPT = (
    "You read one page of a document from its picture and write it down as Markdown. "
    "Write down all the text that can be seen on the current page, exactly as it is printed: "
    "never reword, correct, shorten, translate or comment on it. "
    "Follow the order in which a person would read, and write everything in one column, "
    "whatever columns or boxes the page has. "
    "Keep the structure: headings, lists, tables as Markdown tables, formulas, symbols. "
    "Where the page has a figure, picture, chart or diagram, put its name or number in square brackets in its place, "
    "and under it, also in square brackets, an objective description of what it shows. "
    "You may be given text of the page itself and of the pages around it: this is context, "
    "only there to understand figures and signs that are hard to make out. "
    "It never replaces or changes what the picture shows. "
    "Leave out running headers and footers, page numbers, watermarks and specks. "
    "Write no introduction, no explanation and no closing words: begin with the first line of the page."
)


@dataclass(frozen=True)
class AiSettings:
    """Reading pages by AI: which providers, in which order, with which limits and at what cost."""

    primary_engine: str = setting(
        "PRIMARY_ENGINE", "openai", setting_tables.provider(), "The provider that is tried first."
    )
    secondary_engine: str = setting(
        "SECONDARY_ENGINE", "anthropic", setting_tables.provider(), "The provider that is tried second."
    )
    provider_chain: tuple[str, ...] = setting(
        "PROVIDER_CHAIN",
        "",
        setting_tables.providers(),
        "Further providers, tried in this order after the two.",
    )
    openai_api_key: str = setting("OPENAI_API_KEY", "", setting_tables.api_key(), "The key for OpenAI.")
    openai_base_url: str = setting(
        "OPENAI_BASE_URL",
        "",
        setting_kinds.url("http", "https"),
        "OpenAI's address, with its `/v1`, where it is another.",
    )
    openai_timeout_s: float = setting(
        "OPENAI_TIMEOUT",
        "0",
        setting_kinds.duration("0", "1h"),
        "The time of one call to OpenAI; 0 means REQUEST_TIMEOUT.",
    )
    openai_primary_model: str = setting(
        "OPENAI_PRIMARY_MODEL",
        "gpt-6.1-terra",
        setting_tables.model(),
        "OpenAI's model for the tier `primary`.",
    )
    openai_secondary_model: str = setting(
        "OPENAI_SECONDARY_MODEL",
        "gpt-6-sol",
        setting_tables.model(),
        "OpenAI's model for the tier `secondary`.",
    )
    openai_fast_model: str = setting(
        "OPENAI_FAST_MODEL", "gpt-6-luna", setting_tables.model(), "OpenAI's model for the tier `fast`."
    )
    anthropic_api_key: str = setting(
        "ANTHROPIC_API_KEY", "", setting_tables.api_key(), "The key for Anthropic."
    )
    anthropic_base_url: str = setting(
        "ANTHROPIC_BASE_URL",
        "",
        setting_kinds.url("http", "https"),
        "Anthropic's address, where it is another.",
    )
    anthropic_timeout_s: float = setting(
        "ANTHROPIC_TIMEOUT",
        "0",
        setting_kinds.duration("0", "1h"),
        "The time of one call to Anthropic; 0 means REQUEST_TIMEOUT.",
    )
    anthropic_primary_model: str = setting(
        "ANTHROPIC_PRIMARY_MODEL",
        "claude-sonnet-5-5",
        setting_tables.model(),
        "Anthropic's model for the tier `primary`.",
    )
    anthropic_secondary_model: str = setting(
        "ANTHROPIC_SECONDARY_MODEL",
        "claude-opus-5-5",
        setting_tables.model(),
        "Anthropic's model for the tier `secondary`.",
    )
    anthropic_fast_model: str = setting(
        "ANTHROPIC_FAST_MODEL",
        "claude-haiku-5-5",
        setting_tables.model(),
        "Anthropic's model for the tier `fast`.",
    )
    servers: tuple[AiServer, ...] = setting(
        "AI_SERVERS",
        "",
        setting_tables.ai_servers(),
        "Servers that speak OpenAI's protocol (vLLM, Ollama, Azure), by name; in the environment as JSON.",
    )
    request_timeout_s: float = setting(
        "REQUEST_TIMEOUT", "60s", setting_kinds.duration("100ms", "1h"), "The time of one call to a provider."
    )
    page_total_timeout_s: float = setting(
        "PAGE_TOTAL_TIMEOUT",
        "120s",
        setting_kinds.duration("100ms", "1d"),
        "The time that all calls for one page have together.",
    )
    wait_max_s: float = setting(
        "AI_WAIT_MAX",
        "10s",
        setting_kinds.duration("0", "1d"),
        "The longest that a page waits while the breakers of all its models are open; then its local text is used. "
        "With JOB_MAX_ATTEMPTS=1 a page never waits for a breaker.",
    )
    early_text_after_s: float = setting(
        "AI_EARLY_TEXT",
        "8s",
        setting_kinds.duration("0", "1d"),
        "When no model has answered for so long, pages without text are read by OCR while they wait for AI, so that "
        "the document is usable; 0 turns this off. With JOB_MAX_ATTEMPTS=1 it is 1.5 s at most, unless a model "
        "answered in the last minute.",
    )
    max_inflight_per_model: int = setting(
        "MAX_INFLIGHT_PER_MODEL",
        "16",
        setting_kinds.integer(1, 10_000),
        "The most calls to one model at a time; it starts at 2, grows with success and halves on 429.",
    )
    breaker_base_backoff_s: float = setting(
        "BREAKER_BASE_BACKOFF",
        "30s",
        setting_kinds.duration("1ms", "1d"),
        "How long the breaker of a failed model stays open; each further failure doubles it.",
    )
    breaker_max_backoff_s: float = setting(
        "BREAKER_MAX_BACKOFF",
        "5m",
        setting_kinds.duration("1ms", "1d"),
        "The longest time that a breaker stays open.",
    )
    recovery_probe_s: float = setting(
        "AI_RECOVERY_PROBE",
        "15s",
        setting_kinds.duration("0", "1h"),
        "While pages or documents find no model, a broken model gets one cheap call at this interval, also before its "
        "breaker's time is over; 0 switches this off.",
    )
    budget_policy: str = setting(
        "BUDGET_POLICY",
        "instant",
        setting_kinds.choice("instant", "sticky"),
        "What a page does when its first model has no requests or tokens left in this minute: `instant` goes to the "
        "next model, `sticky` waits for the first.",
    )
    limits: tuple[AiLimit, ...] = setting(
        "AI_LIMITS",
        "",
        setting_tables.ai_limits(),
        "Requests and tokens a minute and calls at a time (`rpm`, `tpm`, `max_inflight`) by `provider:model`; in the "
        "environment as JSON, or one by one as OPENAI_GPT41_RPM, OPENAI_GPT41_TPM and MAX_INFLIGHT_OPENAI_GPT41. "
        "Unknown limits are learnt from the provider's answers.",
    )
    prices: tuple[AiPrice, ...] = setting(
        "AI_PRICES",
        "",
        setting_tables.ai_prices(),
        "US dollars for a million tokens by `provider:model`, where they differ from the built-in list; "
        "in the environment as JSON.",
    )
    max_cost_per_document_usd: float = setting(
        "MAX_COST_PER_DOCUMENT",
        "0",
        setting_kinds.number(0, 1_000_000),
        "US dollars after which a document's other pages are read locally; 0 means no ceiling.",
    )
    max_cost_per_team_usd: float = setting(
        "MAX_COST_PER_TEAM",
        "0",
        setting_kinds.number(0, 1_000_000_000),
        "US dollars a month after which a team's pages are read locally; 0 means no ceiling.",
    )
    system_prompt: str = setting(
        "AI_SYSTEM_PROMPT", SYSTEM_PROMPT, setting_kinds.secret(), "The system prompt."
    )
    max_tokens_out: int = setting(
        "AI_MAX_TOKENS_OUT", "8192", setting_kinds.integer(16, 1_000_000), "The most tokens of one answer."
    )
    send_all_pages: bool = setting(
        "IMAGE_SEND_ALL_PAGES",
        "false",
        setting_kinds.boolean(),
        "Whether pages of plain text go to AI as well.",
    )
    context_radius: int = setting(
        "IMAGE_CONTEXT_RADIUS",
        "1",
        setting_kinds.integer(0, 100),
        "Pages before and after whose text goes along.",
    )
    max_context_bytes: int = setting(
        "IMAGE_MAX_CONTEXT_BYTES",
        "3000",
        setting_kinds.size("0B", "1MB", bare_unit="B"),
        "The most text that goes along.",
    )
    page_text: str = setting(
        "AI_PAGE_TEXT",
        "elements",
        setting_kinds.choice("elements", "plain", "none"),
        "What goes along of a page's own text: `elements` as they were found here, in reading order, `plain` as the "
        "PDF has it, or `none`.",
    )
    table_crops: int = setting(
        "AI_TABLE_CROPS",
        "0",
        setting_kinds.integer(0, 8),
        "The most dense tables of a page that are sent as further pictures at twice IMAGE_DPI; each costs tokens.",
    )
    second_opinion: bool = setting(
        "AI_SECOND_OPINION",
        "false",
        setting_kinds.boolean(),
        "Whether another model is asked where the page's own words support little of an answer; the better is kept.",
    )
    ground_with_ocr: bool = setting(
        "AI_GROUND_WITH_OCR",
        "false",
        setting_kinds.boolean(),
        "Whether answers about pages without a text layer are compared with what local OCR sees (2 s of CPU a page).",
    )
    cache_ttl_s: float = setting(
        "AI_CACHE_TTL",
        "7d",
        setting_kinds.duration("0", "3650d"),
        "How long an answer is kept for the same page; 0 is never.",
    )
