"""`${VAR}` and `${VAR:-default}` in a server entry.

Policy (CodeBuddy Code page, DESIGN section 2): names are `[A-Z_][A-Z0-9_]*`, everything else (`$VAR`, `${lower}`,
`pa$$word`) stays as it is. A default counts when the variable is not set; a variable that is set to nothing is set. A
default may hold further variables. What a variable holds is never expanded again, except the server's own `env` values,
which are written by the same person. An unset variable without a default stays in the text as `${VAR}` and is reported.
Nothing here runs before a server has been approved: expanding is what could carry a secret to a stranger's URL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from codebuddy_mcp_tools.config.display import is_secret_name
from codebuddy_mcp_tools.config.models import OAuthConfig, ServerConfig, StdioServer
from codebuddy_mcp_tools.errors import ConfigError

MAX_EXPANDED_CHARS = 1_000_000
"""Longest text one value may grow to: variables that name each other grow without bound otherwise."""
MAX_NESTING = 50
"""Deepest default inside a default; what is deeper is ordinary text."""

_OPENING = re.compile(r"\$\{(?:(?P<name>[A-Z_][A-Z0-9_]*)(?P<end>\}|:-))?|\}")
_FOREIGN = re.compile(r"\$\{(?:(?:input|env|command|config):[^}]*|workspaceFolder(?:Basename)?|userHome)\}")

Lookup = Callable[[str], "tuple[str, tuple[str, ...]] | None"]


class Expansion(NamedTuple):
    """What `expand` made of a text."""

    text: str
    used: tuple[str, ...]
    """Variables whose value is in the text, in order of first use."""
    missing: tuple[str, ...]
    """Variables that are not set and have no default; their placeholders are still in the text."""


class ExpandedServer(NamedTuple):
    """A server entry with its variables put in."""

    config: ServerConfig
    missing: tuple[str, ...]
    """Variables that are not set, `input:x` and the like of a remote server included: it must not be dialled."""
    secrets: tuple[str, ...]
    """Every text that must not be shown: resolved env and header values, URL user-info and query values."""


@dataclass(slots=True)
class _Frame:
    """One `${…` that is still open."""

    opening: str
    name: str | None
    parts: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def absorb(self, text: str, used: list[str], missing: list[str]) -> None:
        self.parts.append(text)
        self.used.extend(used)
        self.missing.extend(missing)


def expand(text: str, variables: Mapping[str, str]) -> Expansion:
    """Put `variables` into `text`. Linear in its length, whatever it holds.

    Raises:
        ConfigError: the result would be longer than `MAX_EXPANDED_CHARS`.
    """
    return _expand(text, lambda name: (variables[name], ()) if name in variables else None)


def _expand(text: str, lookup: Lookup) -> Expansion:
    frames = [_Frame("", None)]
    size = position = 0
    for match in _OPENING.finditer(text):
        top = frames[-1]
        top.parts.append(text[position : match.start()])
        position = match.end()
        if match["end"] == "}":
            size += _substitute(top, match[0], match["name"], lookup)
        elif match[0] != "}" and len(frames) <= MAX_NESTING:
            frames.append(_Frame(match[0], match["name"]))
        elif match[0] == "}" and len(frames) > 1:
            size += _close(frames, lookup)
        else:
            top.parts.append(match[0])
        if size > MAX_EXPANDED_CHARS:
            raise ConfigError(f"variables expand to more than {MAX_EXPANDED_CHARS:,} characters")
    frames[-1].parts.append(text[position:])
    while len(frames) > 1:  # never closed: it was ordinary text
        frame = frames.pop()
        frames[-1].absorb(frame.opening + "".join(frame.parts), frame.used, frame.missing)
    root = frames[0]
    return Expansion("".join(root.parts), _distinct(root.used), _distinct(root.missing))


def _substitute(frame: _Frame, placeholder: str, name: str, lookup: Lookup) -> int:
    found = lookup(name)
    if found is None:
        frame.absorb(placeholder, [], [name])
        return 0
    frame.absorb(found[0], [name], list(found[1]))
    return len(found[0])


def _close(frames: list[_Frame], lookup: Lookup) -> int:
    frame = frames.pop()
    inner = "".join(frame.parts)
    if frame.name is None:  # `${lower…}`: not ours, only its braces count
        frames[-1].absorb(frame.opening + inner + "}", frame.used, frame.missing)
        return 0
    found = lookup(frame.name)
    if found is None:
        frames[-1].absorb(inner, frame.used, frame.missing)
        return 0
    frames[-1].absorb(found[0], [frame.name], list(found[1]))
    return len(found[0])


def _distinct(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def placeholders(text: str) -> tuple[str, ...]:
    """The variables a text names, whether they are set or not, defaults included."""
    return tuple(dict.fromkeys(match["name"] for match in _OPENING.finditer(text) if match["name"]))


def unsupported_placeholders(text: str) -> tuple[str, ...]:
    """Placeholders of other hosts (`${input:x}`, `${env:X}`, `${workspaceFolder}`), which stay as they are."""
    return tuple(dict.fromkeys(match[0] for match in _FOREIGN.finditer(text)))


class _Variables:
    """Process environment first, then the server's own `env`, whose values may name other variables."""

    def __init__(self, environ: Mapping[str, str], own: Mapping[str, str]) -> None:
        self._environ = environ
        self._own = own
        self._done: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._open: set[str] = set()

    def lookup(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        if name in self._environ:
            return self._environ[name], ()
        if name in self._done:
            return self._done[name]
        if name not in self._own or name in self._open:
            return None
        self._open.add(name)
        try:
            expansion = _expand(self._own[name], self.lookup)
        except RecursionError:
            raise ConfigError(f"env: {name} refers to too many other variables") from None
        finally:
            self._open.discard(name)
        self._done[name] = (expansion.text, expansion.missing)
        return self._done[name]


def expand_server(config: ServerConfig, environ: Mapping[str, str]) -> ExpandedServer:
    """The entry with variables put into command, args, env values, url and header values (keys are left alone).

    Raises:
        ConfigError: a value grows beyond `MAX_EXPANDED_CHARS`.
    """
    lookup = _Variables(environ, config.env).lookup
    missing: list[str] = []
    used: list[str] = []

    def put(text: str) -> str:
        expansion = _expand(text, lookup)
        missing.extend(expansion.missing)
        used.extend(expansion.used)
        return expansion.text

    update: dict[str, object] = {"env": {name: put(value) for name, value in config.env.items()}}
    if isinstance(config, StdioServer):
        update |= {"command": put(config.command), "args": tuple(put(arg) for arg in config.args)}
    else:
        update |= {"url": put(config.url), "headers": {name: put(value) for name, value in config.headers.items()}}
        if config.oauth is not None:
            update["oauth"] = _expand_oauth(config.oauth, put)
        for text in (config.url, *config.headers.values()):
            missing.extend(place[2:-1] for place in unsupported_placeholders(text))  # must not be sent as they are
    expanded = config.model_copy(update=update)
    carried = tuple(found[0] for name in used if is_secret_name(name) and (found := lookup(name)))
    return ExpandedServer(expanded, _distinct(missing), _distinct([*secrets_of(expanded), *carried]))


def _expand_oauth(oauth: OAuthConfig, put: Callable[[str], str]) -> OAuthConfig:
    texts = {name: value for name, value in oauth if isinstance(value, str)}
    return oauth.model_copy(update={name: put(value) for name, value in texts.items()})


def secrets_of(config: ServerConfig) -> tuple[str, ...]:
    """Every text of an expanded entry that must never be shown, longest first."""
    found = {value for value in config.env.values() if value}
    if not isinstance(config, StdioServer):
        for value in config.headers.values():
            found |= {value, value.rpartition(" ")[2]} - {""}
        found |= _url_secrets(config.url)
        if config.oauth is not None and config.oauth.client_secret:
            found.add(config.oauth.client_secret)
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def _url_secrets(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        userinfo = parts.netloc.rpartition("@")[0]
        query = [value for _, value in parse_qsl(parts.query)]
        raw_query = [piece.partition("=")[2] or piece for piece in parts.query.split("&")]
    except ValueError:
        return {url}
    user, colon, password = userinfo.partition(":")
    secret_part = [userinfo, unquote(userinfo), *((password, unquote(password)) if colon else (user, unquote(user)))]
    return {text for text in (*secret_part, *query, *raw_query) if text}
