"""Puts the settings together from the environment, a file and the command line, in rising order.

The file outranks the environment on purpose (the contract's order); a file that wants to be overruled by the
environment says so itself: `port: ${PORT:-8080}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quire.errors import SettingsError
from quire.settings.model_limits import apply_model_limits
from quire.settings.sections import Settings, declarations, sections
from quire.settings.setting_kinds import Declaration, MalformedPartError
from quire.settings.source_names import (
    ALIASES,
    EXPLAINED,
    FILE_EXPLAINED,
    FILE_NAMES,
    FILE_SECTIONS,
    REFUSED,
    near_misses,
)

_REFERENCE = re.compile(
    r"\$(?:(?P<escaped>\$)(?=\{)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<fallback>[^}]*))?\}|(?P<broken>\{))"
)
# A Kubernetes service called `quire` puts these into the environment of every pod beside it.
_SERVICE_LINK = re.compile(r"QUIRE_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")


@dataclass(frozen=True)
class _Given:
    """A value as it was written, and where."""

    value: str
    origin: str


class _Problems(list[str]):
    """Sentences about all that is wrong, so that the user mends it in one go; `notes` are warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def stop_if_any(self) -> None:
        if self:
            raise SettingsError("\n".join(self))


def load(environ: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. Raises SettingsError with one sentence for each problem.

    An empty value counts as not given, except on the command line.
    """
    known = declarations()
    problems = _Problems()
    given = _from_environment(environ, known, problems)
    command_line = _from_command_line(overrides or {}, known, problems)
    config = command_line.get("QUIRE_CONFIG") or given.get("QUIRE_CONFIG")
    if config is not None and config.value:
        given |= _from_file(Path(config.value).expanduser(), environ, known, problems)
    given |= command_line

    values: dict[str, dict[str, Any]] = {name: {} for name, _ in sections()}
    for name, one in given.items():
        declared = known[name]
        try:
            values[declared.section][declared.attribute] = declared.kind.read(one.value)
        except (ValueError, OverflowError) as error:
            problems.append(_malformed(declared, one, error))
    problems.stop_if_any()
    built = {name: holder(**values[name]) for name, holder in sections()}
    built["ai"], wrong, notes = apply_model_limits(built["ai"], environ, known)
    problems += wrong
    problems.notes += notes
    problems.stop_if_any()
    origins = {name: one.origin for name, one in given.items()}
    return Settings(**built, origins=origins, notes=tuple(problems.notes))


def _from_environment(
    environ: Mapping[str, str], known: Mapping[str, Declaration], problems: _Problems
) -> dict[str, _Given]:
    for name in sorted(environ):
        if name.startswith("QUIRE_") and name not in known and not _is_service_link(name, environ[name]):
            problems.append(f"{name} in the environment is not a setting{_suggestion(name, known)}")
    problems += [
        f"{name} is not a setting of Quire. {why}" for name, why in REFUSED.items() if environ.get(name)
    ]
    problems.notes += [
        f"{name} has no effect: {why}." for name, why in EXPLAINED.items() if environ.get(name)
    ]
    problems.notes += [
        f"{name} in the environment is not a setting; did you mean {meant}?"
        for name, meant in near_misses(environ, known)
        if not name.startswith("QUIRE_")
    ]
    found = {
        name: _Given(environ[name].strip(), "environment") for name in known if environ.get(name, "").strip()
    }
    for alias, name in ALIASES.items():
        value = environ.get(alias, "").strip()
        if value and name in found and found[name].value != value:
            problems.append(f"{alias} and {name} in the environment differ; they are the same setting.")
        elif value:
            found[name] = _Given(value, f"environment ({alias})")
    return found


def _from_command_line(
    overrides: Mapping[str, str], known: Mapping[str, Declaration], problems: _Problems
) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for name, value in overrides.items():
        if name.upper() in known:
            found[name.upper()] = _Given(value, "command line")
        else:
            problems.append(f"{name} on the command line is not a setting{_suggestion(name, known)}")
    return found


def _from_file(
    path: Path, environ: Mapping[str, str], known: Mapping[str, Declaration], problems: _Problems
) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for name, raw in _flat(_parsed(path), path, known, problems):
        if name in found:
            problems.append(f"{name} is given twice in {path}.")
            continue
        try:
            value = _as_text(raw, known[name], environ)
        except ValueError as error:
            problems.append(f"{name} in {path} {error}.")
            continue
        if value:
            found[name] = _Given(value, f"file {path}")
    return found


def _flat(
    data: Mapping[str, Any], path: Path, known: Mapping[str, Declaration], problems: _Problems
) -> Iterator[tuple[str, Any]]:
    """The settings of a file, taken out of their sections."""
    section_names = {name for name, _ in sections()}
    for key, value in data.items():
        section = key.lower()
        if section in FILE_SECTIONS and isinstance(value, Mapping):
            yield from _of_the_source(section, value, path, problems)
            continue
        if section not in section_names:
            entries, section = {key: value}, ""
        elif isinstance(value, Mapping):
            entries = dict(value)
        else:
            problems.append(f"{key} in {path} is a section; put its settings under it.")
            continue
        for inner, one in entries.items():
            name = inner.upper()
            if name not in known:
                problems.append(f"{inner} in {path} is not a setting{_suggestion(inner, known)}")
            elif name == "QUIRE_CONFIG":
                problems.append(f"{inner} in {path} would name a file from inside a file; leave it out.")
            elif section and known[name].section != section:
                problems.append(f"{inner} in {path} belongs to {known[name].section}, not to {section}.")
            else:
                yield name, one


def _of_the_source(
    place: str, entries: Mapping[str, Any], path: Path, problems: _Problems
) -> Iterator[tuple[str, Any]]:
    """The entries of a section of the batching service's own file, under our names."""
    for key, value in entries.items():
        name = f"{place}.{key.lower()}"
        if name in FILE_NAMES:
            yield FILE_NAMES[name], value
        elif name in FILE_EXPLAINED:
            problems.notes.append(f"{name} in {path} has no effect: {FILE_EXPLAINED[name]}.")
        elif isinstance(value, Mapping):
            yield from _of_the_source(name, value, path, problems)
        else:
            problems.append(
                f"{name} in {path} is not a setting{_suggestion(key, dict.fromkeys(FILE_NAMES.values()))}"
            )


def _parsed(path: Path) -> Mapping[str, Any]:
    """The file as nested mappings. Raises SettingsError when it can't be read at all."""
    readers = {".toml": _parsed_toml, ".yaml": _parsed_yaml, ".yml": _parsed_yaml}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise SettingsError(f"QUIRE_CONFIG names {path}; expected a file that ends in .yaml, .yml or .toml.")
    try:
        data = reader(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"QUIRE_CONFIG names {path}, which can't be read: {error.strerror}.") from error
    except ValueError as error:
        raise SettingsError(f"QUIRE_CONFIG names {path}, which is malformed: {error}.") from error
    if not isinstance(data, Mapping):
        raise SettingsError(f"QUIRE_CONFIG names {path}; expected settings as `name: value` in it.")
    return data


def _parsed_toml(source: str) -> Any:
    import tomllib  # only for those who use it

    return tomllib.loads(source)  # TOMLDecodeError is a ValueError and shows a line, never a value


def _parsed_yaml(source: str) -> Any:
    import yaml  # only for those who use it

    try:
        node = yaml.compose(source, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ValueError(f"{error.problem or 'not YAML'} (line {line})") from error
    except yaml.YAMLError as error:
        raise ValueError("it has characters that YAML doesn't allow") from error
    return {} if node is None else _plain(node)


def _plain(node: Any) -> Any:
    """YAML as mappings, lists and texts. Scalars stay texts: YAML 1.1 would make 22:30 a number."""
    if node.id == "mapping":
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.id != "scalar" or key.value in found:
                why = "a key that is not a word" if key.id != "scalar" else f"{key.value} given twice"
                raise ValueError(f"{why} (line {key.start_mark.line + 1})")
            found[key.value] = _plain(value)
        return found
    if node.id == "sequence":
        return [_plain(item) for item in node.value]
    return "" if node.tag == "tag:yaml.org,2002:null" else node.value


def _as_text(raw: Any, declared: Declaration, environ: Mapping[str, str]) -> str:
    """A file's value as the environment would have it. Raises ValueError, worded without the value."""
    if declared.kind.table and isinstance(raw, Mapping):
        return json.dumps(_resolved(raw, environ)) if raw else ""
    if isinstance(raw, Mapping | list):
        if not declared.kind.many:
            raise ValueError("should be a single value")
        items: list[Any] = list(raw)
        if isinstance(raw, Mapping):
            pairs = ((team, keys if isinstance(keys, list) else [keys]) for team, keys in raw.items())
            items = [f"{team}:{key}" for team, keys in pairs for key in keys]
        texts = [_as_text(item, declared, environ) for item in items]
        if any("," in text for text in texts):
            raise ValueError("has a comma inside one of its values")
        return ",".join(texts)
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return _substituted(str(raw), environ).strip()


def _resolved(raw: Any, environ: Mapping[str, str]) -> Any:
    """A table with the references in its texts replaced."""
    if isinstance(raw, Mapping):
        return {name: _resolved(one, environ) for name, one in raw.items()}
    return _substituted(raw, environ).strip() if isinstance(raw, str) else raw


def _substituted(value: str, environ: Mapping[str, str]) -> str:
    """`${NAME}` and `${NAME:-otherwise}` replaced from the environment; `$${` is a plain `${`."""

    def replace(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        if match["broken"]:
            raise ValueError("has a `${` that is not a name in braces (write `$${` for the characters)")
        name, fallback = match["name"], match["fallback"]
        if fallback is not None:
            return environ.get(name) or fallback
        if name not in environ:
            raise ValueError(f"needs {name}, which the environment doesn't have")
        return environ[name]

    return _REFERENCE.sub(replace, value)


def _malformed(declared: Declaration, given: _Given, error: Exception) -> str:
    place = f"on the {given.origin}" if given.origin == "command line" else f"in the {given.origin}"
    # A URL may carry a password even where the setting is no secret.
    hidden = declared.kind.secret or "://" in given.value or "@" in given.value
    value = "a value" if hidden else repr(given.value)
    wrong = str(error) if isinstance(error, MalformedPartError) else f"expected {declared.kind.expected}"
    return f"{declared.name} has {value} {place}; {wrong}."


def _is_service_link(name: str, value: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(name)) or (name == "QUIRE_PORT" and "://" in value)


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    import difflib  # only on the way to an error

    bare = name.upper().removeprefix("QUIRE_")
    near = difflib.get_close_matches(bare, known, n=1, cutoff=0.7)
    near = near or difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else "."
