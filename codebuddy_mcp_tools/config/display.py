"""How configured values are shown: names yes, values no.

Policy: the values of environment variables and headers, user-info and query of a URL, and arguments that look like
credentials are never shown. What is shown must still tell two servers apart: scheme, host, path, command and flags
stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

MASK = "***"

_SECRET_NAME = re.compile(
    r"(?i)(?:token|secret|passw|pwd|api[-_]?key|apikey|access[-_]?key|private[-_]?key|credential|authori[sz]ation|bearer"
    r"|(?:^|[-_])(?:auth|key|pat|dsn|cookie|header)(?:$|[-_]))"
)
_FLAG = re.compile(r"(--?[A-Za-z][\w.-]*)(?:([=:])(.*))?", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_][\w.-]*)([=:])(.*)", re.DOTALL)
_LONGEST = 2_000
_SHOWN = 200
_CARRIERS = frozenset({"-H", "-e", "-u", "--env", "--user"})
"""Flags that take `NAME=VALUE`, `Name: value` or `user:password`."""
_GLUED = re.compile(r"(-[eH]\w+)[=:]")
_INSIDE = re.compile(
    r"(?i)((?:token|secret|passw(?:or)?d|pwd|api[-_]?key)[\w-]{0,20}[\"']?\s{0,3}[=:]\s{0,3}[\"']?|\bbearer\s{1,3})"
    r"[^\s;,&\"'}*]+"
)
"""A credential inside a longer text: a connection string, a JSON object."""
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://\S+")
_KNOWN_TOKENS = re.compile(
    r"(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|AIza|eyJ[\w-]{10,}\.|npm_|pypi-|hf_|ATATT)[\w.=-]{6,}"
)


def is_secret_name(name: str) -> bool:
    """Whether a variable, flag or header of this name usually holds a credential."""
    return bool(_SECRET_NAME.search(name))


def display_url(url: str) -> str:
    """`scheme://host[:port]/path` of a URL: user-info and query become `***`, a fragment is dropped."""
    try:
        parts = urlsplit(url)
        if not parts.scheme or not parts.netloc:
            return url.partition("?")[0] + ("?" + MASK if "?" in url else "") if "@" not in url else MASK
        userinfo, at, host = parts.netloc.rpartition("@")
    except ValueError:
        return MASK
    shown = f"{parts.scheme}://{MASK + at if userinfo else ''}{host}{parts.path}"
    return shown + (f"?{MASK}" if parts.query else "")


def mask_values(values: Mapping[str, str]) -> dict[str, str]:
    """The same names, every value `***`."""
    return dict.fromkeys(values, MASK)


def display_args(args: Sequence[str]) -> tuple[str, ...]:
    """An argument list with everything that looks like a credential replaced by `***`."""
    shown: list[str] = []
    hide_next = False
    for arg in args:
        if hide_next and not arg.startswith("-"):
            shown.append(MASK)
            hide_next = False
            continue
        text, hide_next = _display_arg(arg)
        shown.append(text)
    return tuple(shown)


def _display_arg(arg: str) -> tuple[str, bool]:
    """The argument as it is shown, and whether the next one is a credential."""
    if len(arg) > _LONGEST:  # some patterns below are quadratic in the worst case
        return f"{_display_arg(arg[:_SHOWN])[0]}… ({len(arg):,} characters)", False
    flag = _FLAG.fullmatch(arg)
    if flag and (is_secret_name(flag[1].lstrip("-")) or flag[1] in _CARRIERS):
        return (f"{flag[1]}{flag[2]}{MASK}", False) if flag[2] else (arg, True)
    if glued := _GLUED.match(arg):
        return f"{glued[1]}={MASK}", False
    assignment = _ASSIGNMENT.fullmatch(arg)
    if assignment and is_secret_name(assignment[1]) and not assignment[3].startswith("//"):
        return f"{assignment[1]}{assignment[2]}{MASK}", False
    text = _URL.sub(lambda match: display_url(match[0]), arg)
    text = _INSIDE.sub(lambda match: match[1] + MASK, text)
    return _KNOWN_TOKENS.sub(MASK, text), False


def display_command(command: str, args: Sequence[str] = ()) -> str:
    """One line for a person: command and masked arguments, quoted where a shell would need it."""
    return " ".join(_quote(part) for part in (command, *display_args(args)))


def _quote(part: str) -> str:
    if part and re.fullmatch(r"[\w@%+=:,./${}*\\-]+", part):
        return part
    return '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'


def display_names(names: Iterable[str]) -> str:
    """`A=***, B=***`"""
    return ", ".join(f"{name}={MASK}" for name in names)
