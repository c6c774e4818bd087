"""A scenario of the simulator: models with their latency and limits, and rules for faults.

A scenario is written as JSON or YAML; `parse` checks it and names what is wrong.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from quire.errors import RequestError

T = TypeVar("T")


class Fault(StrEnum):
    """The ways in which a call can fail."""

    RATE_LIMIT = "rate_limit"  # 429; `retry_after_s` or no such header
    QUOTA = "quota"
    SERVER_ERROR = "server_error"  # `status`, default 500
    OVERLOADED = "overloaded"  # 529 of Anthropic, 503 of OpenAI
    AUTH = "auth"
    REJECTED = "rejected"  # `status`, default 400
    HANG = "hang"
    DRIP = "drip"  # a byte every `interval_s`
    CUT = "cut"  # in the middle of the answer
    RESET = "reset"  # before the answer
    BAD_JSON = "bad_json"
    WRONG_SHAPE = "wrong_shape"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTENT_FILTER_ERROR = "content_filter_error"  # as Azure sends it
    EMPTY = "empty"
    TRUNCATED = "truncated"
    LOOP = "loop"
    INVENTED = "invented"  # a sentence and a number that the page does not have follow its text


@dataclass(frozen=True)
class Latency:
    """How long an answer takes: `fixed` (seconds), `uniform` (low, high) or `lognormal` (median, sigma)."""

    kind: str = "fixed"
    a: float = 0.0
    b: float = 0.0

    def draw(self, chance: random.Random) -> float:
        if self.kind == "uniform":
            return chance.uniform(self.a, self.b)
        if self.kind == "lognormal":
            return chance.lognormvariate(math.log(self.a), self.b) if self.a > 0 else 0.0
        return self.a


@dataclass(frozen=True)
class ModelProfile:
    """A model, or several by a pattern such as `gpt-*`. Limits are by the minute; 0 is none.

    `window` is `bucket`, which refills all the time and holds `burst_s` seconds' worth, as the real ones do, or
    `sliding`, which counts any 60 seconds. `tolerance_s`: calls may arrive this much early, because networks jitter.
    """

    model: str = "*"
    latency: Latency = Latency()
    rpm: int = 0
    tpm: int = 0
    window: str = "bucket"
    burst_s: float = 60.0
    tolerance_s: float = 0.5


@dataclass(frozen=True)
class FaultRule:
    """One fault and the calls that it applies to: all given conditions must hold.

    `first` and `last` count the calls to each model from 1; `from_s` and `until_s` count from the start of the
    scenario; `probability` is drawn for each call.
    """

    fault: Fault
    model: str = "*"
    first: int = 1
    last: float = math.inf
    from_s: float = 0.0
    until_s: float = math.inf
    probability: float = 1.0
    retry_after_s: float | None = None
    status: int | None = None
    interval_s: float = 0.5

    @property
    def is_window(self) -> bool:
        """Whether the rule has a time window, like an outage."""
        return self.from_s > 0 or self.until_s < math.inf

    def covers(self, model: str, call: int, at_s: float) -> bool:
        """Whether the conditions hold, apart from `probability`."""
        return (
            self.from_s <= at_s < self.until_s
            and self.first <= call <= self.last
            and (self.model == "*" or fnmatchcase(model, self.model))
        )


@dataclass(frozen=True)
class Scenario:
    """The first matching profile and the first matching rule apply. With `api_keys`, any other key is refused."""

    models: tuple[ModelProfile, ...] = ()
    rules: tuple[FaultRule, ...] = ()
    api_keys: tuple[str, ...] = ()
    truth: Mapping[str, Any] = field(default_factory=dict)
    """Answers about values by file name; see `simulated_values`."""
    batch_s: float = 0.0
    """How long a batch takes from handing in to its end."""

    def profile(self, model: str) -> ModelProfile:
        for one in self.models:
            if fnmatchcase(model, one.model):
                return one
        return ModelProfile()


def parse(data: object) -> Scenario:
    """Raises RequestError that names what is wrong."""
    given = _mapping(data, "A scenario", {"models", "rules", "api_keys", "truth", "batch_s"})
    keys = _list(given.get("api_keys", []), "api_keys")
    if not all(isinstance(key, str) for key in keys):
        raise RequestError("api_keys must be a list of texts.")
    batch_s = given.get("batch_s", 0)
    if not isinstance(batch_s, int | float) or isinstance(batch_s, bool) or not 0 <= batch_s < math.inf:
        raise RequestError("batch_s must be a number of seconds.")
    return Scenario(
        tuple(
            _profile(one, f"models[{number}]")
            for number, one in enumerate(_list(given.get("models", []), "models"))
        ),
        tuple(
            _rule(one, f"rules[{number}]")
            for number, one in enumerate(_list(given.get("rules", []), "rules"))
        ),
        tuple(keys),
        _truth(given.get("truth", {})),
        float(batch_s),
    )


def _truth(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping) or not all(isinstance(one, Mapping) for one in data.values()):
        raise RequestError("truth must be a table of file names, each with a table of values.")
    return data


def _profile(data: object, place: str) -> ModelProfile:
    given = dict(_mapping(data, place, {one.name for one in fields(ModelProfile)}))
    latency = _latency(given.pop("latency", 0), f"{place}.latency")
    profile = ModelProfile(latency=latency, **_checked(given, _PROFILE_KINDS, place))
    if profile.window not in {"bucket", "sliding"}:
        raise RequestError(f"{place}.window must be bucket or sliding.")
    return profile


def _rule(data: object, place: str) -> FaultRule:
    given = dict(_mapping(data, place, {one.name for one in fields(FaultRule)}))
    fault = given.pop("fault", None)
    if fault not in set(Fault):
        raise RequestError(f"{place}.fault must be one of {', '.join(Fault)}.")
    rule = FaultRule(Fault(fault), **_checked(given, _RULE_KINDS, place))
    if rule.probability > 1:
        raise RequestError(f"{place}.probability must be from 0 to 1.")
    if rule.status is not None and not 300 <= rule.status <= 599:
        raise RequestError(f"{place}.status must be from 300 to 599.")
    return rule


def _latency(data: object, place: str) -> Latency:
    """A number of seconds, or one of the kinds as `{uniform: [0.1, 0.5]}`."""
    if _is_number(data):
        return Latency("fixed", float(data))  # type: ignore[arg-type]
    if isinstance(data, Mapping) and len(data) == 1:
        kind, values = next(iter(data.items()))
        numbers = values if isinstance(values, list) else [values]
        if {"fixed": 1, "uniform": 2, "lognormal": 2}.get(kind) == len(numbers) and all(
            map(_is_number, numbers)
        ):
            return Latency(kind, *map(float, numbers))
    raise RequestError(
        f"{place} must be seconds, or uniform with low and high, or lognormal with median and sigma."
    )


_PROFILE_KINDS: dict[str, type] = {
    "model": str,
    "rpm": int,
    "tpm": int,
    "window": str,
    "burst_s": float,
    "tolerance_s": float,
}
_RULE_KINDS: dict[str, type] = {
    "model": str,
    "first": int,
    "last": int,
    "from_s": float,
    "until_s": float,
    "probability": float,
    "retry_after_s": float,
    "status": int,
    "interval_s": float,
}


def _checked(given: Mapping[str, Any], kinds: Mapping[str, type], place: str) -> dict[str, Any]:
    """The values given, where each is of its kind; None counts as not given."""
    found = {name: value for name, value in given.items() if value is not None}
    for name, value in found.items():
        kind = kinds[name]
        good = isinstance(value, str) if kind is str else _is_number(value)
        if not good or (kind is int and not isinstance(value, int)):
            word = {str: "a text", int: "a whole number", float: "a number"}[kind]
            raise RequestError(f"{place}.{name} must be {word}, not negative.")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise RequestError(f"{place} must be a list.")
    return value


def _mapping(value: object, place: str, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RequestError(f"{place} must be a table of {', '.join(sorted(names))}.")
    unknown = sorted(str(name) for name in value if name not in names)
    if unknown:
        raise RequestError(f"{place} doesn't know {', '.join(unknown)}; it knows {', '.join(sorted(names))}.")
    return value
