"""What a person should look at twice before a server is approved.

Policy: warnings, not a boundary. A list of dangerous commands can always be walked round (`npx -c`, a script with a
harmless name); what protects is that a person sees the whole command before it runs. Each warning is one line that
names the thing and says what it means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

import httpx

from codebuddy_mcp_tools.config import ServerConfig, StdioServer, placeholders
from codebuddy_mcp_tools.policy.fingerprint import working_directory
from codebuddy_mcp_tools.policy.text import show

_CODE_VARIABLES = """
    PATH LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PYTHONPATH PYTHONSTARTUP PYTHONHOME NODE_OPTIONS NODE_PATH BASH_ENV ENV
    SHELL IFS PERL5OPT PERL5LIB RUBYOPT RUBYLIB GIT_SSH GIT_SSH_COMMAND GIT_EXEC_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS
    JDK_JAVA_OPTIONS DOTNET_STARTUP_HOOKS PROMPT_COMMAND EDITOR PAGER HOME UV_INDEX_URL UV_DEFAULT_INDEX UV_INDEX
    PIP_INDEX_URL PIP_EXTRA_INDEX_URL DENO_DIR PYTHONUSERBASE PYTHONEXECUTABLE GCONV_PATH CLASSPATH
"""
_RUNS_CODE = frozenset(_CODE_VARIABLES.split())
_TRUST_VARIABLES = (
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED"
)
_CHANGES_TRUST = frozenset(_TRUST_VARIABLES.split())
_CODE_PREFIXES = ("LD_", "DYLD_", "NPM_CONFIG_")

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "csh", "tcsh", "cmd", "powershell", "pwsh"})
_ELEVATORS = frozenset({"sudo", "doas", "su", "runas", "pkexec"})
_RUNNERS = frozenset({"npx", "bunx", "pnpx", "pnpm", "yarn", "npm", "bun", "uvx", "uv", "pipx", "deno"})
_INTERPRETERS = frozenset({"python", "py", "node", "ruby", "perl", "php", "deno", "bun", "lua", "osascript"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_SHELL_FLAG = re.compile(r"-[a-z]*c|/[ck]|-(?:command|encodedcommand|e|ec|enc)", re.IGNORECASE)
_CODE_FLAGS = frozenset({"-c", "-e", "-p", "-r", "--eval", "--print", "eval", "-pe", "-ne"})
_FLOATING = re.compile(r"[@:](?:latest|next|canary|nightly|main|master|head)$", re.IGNORECASE)
_REMOTE_CODE = re.compile(r"^(?:git\+|https?://|github:|git@|git://|npm:https?:|jsr:https?:)", re.IGNORECASE)
_VERSION_SUFFIX = re.compile(r"[0-9.]+$")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def risks_of(config: ServerConfig, workspace: Path | None = None) -> tuple[str, ...]:
    """One line for each thing to look at, most serious first; `()` for an ordinary entry."""
    found = (
        [*_launch(config, workspace)] if isinstance(config, StdioServer) else [*_address(config.url, config.headers)]
    )
    found.extend(_variables(config))
    found.extend(_hidden(config))
    return tuple(dict.fromkeys(found))


def _launch(config: StdioServer, workspace: Path | None) -> Iterator[str]:
    yield from _argv([config.command, *config.args])
    if workspace is not None and _is_inside(config, workspace):
        yield f"{show(config.command)} is a file of the project itself: a change to the project changes what runs"


def _argv(argv: Sequence[str]) -> Iterator[str]:
    """Warnings for a command line; wrappers like `env` and `sudo` are looked through."""
    program, rest = _program(argv[0]), list(argv[1:])
    if program in _ELEVATORS:
        yield f"{program} runs it with the rights of another user"
    if program in _ELEVATORS | {"env", "nohup", "nice", "timeout", "xargs", "command", "exec", "start"}:
        inner = next((place for place, arg in enumerate(rest) if not arg.startswith("-") and "=" not in arg), None)
        if inner is not None:
            yield from _argv(rest[inner:])
        return
    if program in _SHELLS and any(_SHELL_FLAG.fullmatch(arg) for arg in rest):
        yield f"{program} runs a command line of its own: read all of it"
        nested = next(
            (place for place, arg in enumerate(rest) if _program(arg) in _RUNNERS and not arg.startswith("-")), None
        )
        if nested is not None:
            yield from _argv(rest[nested:])
    if program in _RUNNERS:
        yield from _runner(program, rest)
    if program in _INTERPRETERS and _CODE_FLAGS.intersection(rest[:4]):
        yield f"{program} runs code that stands in its arguments: read all of it"
    if program in _CONTAINERS:
        yield from _container(program, rest)


def _runner(program: str, rest: Sequence[str]) -> Iterator[str]:
    if any(arg in {"-c", "--call"} or arg.startswith("--call=") for arg in rest) and program in {
        "npx",
        "npm",
        "pnpx",
        "bunx",
    }:
        yield f"{program} --call runs a command line of its own: read all of it"
    for arg in rest:
        if _FLOATING.search(arg):
            yield f"{show(arg)} is not a fixed version: what runs can change from one start to the next"
        if _REMOTE_CODE.match(arg):
            yield f"{program} fetches and runs code from {show(arg)}"


def _container(program: str, rest: Sequence[str]) -> Iterator[str]:
    text = " ".join(rest)
    if "--privileged" in rest:
        yield f"{program} --privileged gives the container the whole machine"
    if "docker.sock" in text:
        yield f"{program} is given the Docker socket: it can control every container and the machine"
    if re.search(r"(?:^|[ =])(?:/|~|\$HOME|\$\{HOME\}):", text) or re.search(r"source=/(?:,|$)", text):
        yield f"{program} is given the whole file system or home directory"
    if re.search(r"--(?:network|net|pid)[= ]host", text):
        yield f"{program} shares the machine's own network or processes"
    for arg in rest:
        if _FLOATING.search(arg):
            yield f"{show(arg)} is not a fixed version: what runs can change from one start to the next"


def _address(url: str, headers: object) -> Iterator[str]:
    host = _host(url)
    if url.lower().startswith("http://") and host not in _LOOPBACK:
        yield "the connection is not encrypted (http): everybody on the way can read and change it"
    names = [
        name for text in (url, *(headers.values() if isinstance(headers, dict) else ())) for name in placeholders(text)
    ]
    if names:
        yield f"it sends the value of {', '.join(dict.fromkeys(names))} to {show(host or url)}"
    if "xn--" in host or not host.isascii():
        yield f"the host {show(host)} holds letters of other scripts: it may look like another one"
    if "@" in url.partition("://")[2].partition("/")[0]:
        yield "the URL holds a user name or password"


def _variables(config: ServerConfig) -> Iterator[str]:
    for name in config.env:
        upper = name.upper()
        if upper in _RUNS_CODE or upper.startswith(_CODE_PREFIXES):
            yield f"the variable {show(name)} can decide which code runs: look at its value in the file"
        elif upper in _CHANGES_TRUST or upper.endswith("_PROXY"):
            yield f"the variable {show(name)} can redirect or open encrypted traffic: look at its value in the file"


def _hidden(config: ServerConfig) -> Iterator[str]:
    if isinstance(config, StdioServer):
        shown = {
            "command": config.command,
            "cwd": config.cwd or "",
            **{f"argument {i}": a for i, a in enumerate(config.args, 1)},
        }
    else:
        shown = {"url": config.url}
    for what, text in shown.items():
        if not text.isprintable():
            yield f"the {what} holds invisible or control characters; they are shown escaped"
    if isinstance(config, StdioServer) and not config.command.isascii():
        yield "the command holds letters other than plain ASCII: it may look like another one"


def _program(command: str) -> str:
    name = PurePath(command.replace("\\", "/")).name.lower()
    for suffix in (".exe", ".cmd", ".bat", ".ps1"):
        name = name.removesuffix(suffix)
    return _VERSION_SUFFIX.sub("", name) or name


def _is_inside(config: StdioServer, workspace: Path) -> bool:
    if "/" not in config.command and "\\" not in config.command:
        return False
    program = os.path.realpath(working_directory(config.cwd, workspace) / config.command)
    return Path(program).is_relative_to(os.path.realpath(workspace))


def _host(url: str) -> str:
    try:
        return httpx.URL(url).raw_host.decode("ascii", "replace").strip("[]")
    except (httpx.InvalidURL, UnicodeError, ValueError):
        return url.partition("://")[2].partition("/")[0].rpartition("@")[2]
