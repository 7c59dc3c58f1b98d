"""Which tools may run: deny > ask > allow > mode.

Policy: a rule matches the (server, tool) pair, never the name a model happens to see; it may be *written* with any of
the names the pair can have. Deny and ask match generously: every reading of the rule, and every name that looks like
the one meant. Allow needs an unambiguous identity: plain names, one reading, one tool or server that fits; otherwise
the rule grants nothing and `lint` says why. No hint of a server lifts a rule; only the mode `cautious` asks what a
tool says of itself, because that is its meaning.

Rules of `permissions.allow`, `ask` and `deny` (the form of the CodeBuddy Code page; case and punctuation do not
matter):

    mcp__server, mcp__server__*     every tool of the server
    mcp__server__tool               one tool
    mcp__*                          every MCP tool; in deny and ask only
    mcp_server_tool, server.tool    one tool (the SideCar page's and this package's own spelling)

A `*` anywhere else matches nothing; rules without a server (`*`, `Read`, `Bash(…)`) are for other tools.
`toolPermissions` takes the same spellings, and a bare tool name for ask and deny.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, get_args

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.effects import may_run_concurrently
from codebuddy_mcp_tools.policy.names import visible_name
from codebuddy_mcp_tools.policy.rules import Inventory, Match, Rule, parse_rule, several
from codebuddy_mcp_tools.policy.skeleton import loose
from codebuddy_mcp_tools.policy.text import show
from codebuddy_mcp_tools.types import Diagnostic, ToolInfo

if TYPE_CHECKING:
    from codebuddy_mcp_tools.config.settings import Settings

Verdict = Literal["allow", "ask", "deny"]
Mode = Literal["autonomous", "cautious", "manual", "strict"]
_STRICTEST_FIRST: tuple[Verdict, ...] = ("deny", "ask", "allow")


@dataclass(frozen=True, slots=True)
class Decision:
    """What may happen with one tool, and why."""

    effect: Verdict
    rule: str | None
    """The rule that decided, as the user wrote it; `None` when the mode decided."""
    reason: str
    """One line for people."""


class PermissionPolicy:
    """The user's rules, applied to tools.

    Args:
        allow: rules of `permissions.allow`.
        ask: rules of `permissions.ask`.
        deny: rules of `permissions.deny`.
        tool_permissions: `toolPermissions`: name → `"allow"`, `"ask"` or `"deny"`.
        mode: what happens to a tool that no rule matches: `autonomous` runs it, `cautious` runs what says
            `readOnlyHint: true` and asks for the rest, `manual` asks, `strict` denies.
        servers: names of all configured servers, also those whose tools are not known yet.
        tools: all known tools. Servers and tools are what makes an allow rule ambiguous: give all of them.

    Raises:
        ConfigError: an unknown mode or verdict.
    """

    def __init__(
        self,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        *,
        tool_permissions: Mapping[str, str] | None = None,
        mode: str = "autonomous",
        servers: Iterable[str] = (),
        tools: Iterable[ToolInfo] = (),
    ) -> None:
        if mode not in get_args(Mode):
            raise ConfigError(
                f"unknown permission mode {mode!r}: use {', '.join(get_args(Mode))}", pointer="/permissionMode"
            )
        self.mode = mode
        self._rules: dict[Verdict, list[Rule]] = {
            "deny": [parse_rule(text, "permissions.deny") for text in several(deny)],
            "ask": [parse_rule(text, "permissions.ask") for text in several(ask)],
            "allow": [parse_rule(text, "permissions.allow") for text in several(allow)],
        }
        for text, verdict in (tool_permissions or {}).items():
            if verdict not in self._rules:
                raise ConfigError(
                    f"toolPermissions: {text!r} is {verdict!r}; use allow, ask or deny", pointer="/toolPermissions"
                )
            self._rules[verdict].append(parse_rule(text, "toolPermissions"))
        self._inventory = Inventory(servers, ((tool.server, tool.name) for tool in tools))
        self._decided: dict[tuple[str, str, bool], Decision] = {}

    @classmethod
    def from_settings(cls, settings: Settings, *, servers: Iterable[str] = (), tools: Iterable[ToolInfo] = ()) -> Self:
        """The policy that the user's settings describe."""
        return cls(
            settings.permissions.allow,
            settings.permissions.ask,
            settings.permissions.deny,
            tool_permissions=settings.tool_permissions,
            mode=settings.permission_mode,
            servers=servers,
            tools=tools,
        )

    def decide(self, tool: ToolInfo) -> Decision:
        """What may happen with this tool. Remembered: the second question costs a dictionary look-up."""
        key = (tool.server, tool.name, may_run_concurrently(tool))
        if key not in self._decided:
            self._decided[key] = self._decide(tool)
        return self._decided[key]

    def explain(self, tool: ToolInfo) -> str:
        """Several lines: the tool, every rule that touches it, what each came to, and the decision."""
        decision = self.decide(tool)
        lines = [f"{show(tool.server)}.{show(tool.name)} ({visible_name(tool.server, tool.name)}): {decision.effect}"]
        for verdict in _STRICTEST_FIRST:
            for rule in self._rules[verdict]:
                match = self._match(rule, verdict, tool)
                if match.hit or match.why:
                    outcome = "matches" if match.hit else f"does not apply: {match.why}"
                    lines.append(f"  {rule.origin} ({verdict}) {show(rule.text)}: {outcome}")
        lines.append(f"  {decision.reason}")
        return "\n".join(lines)

    def lint(self, tools: Iterable[ToolInfo]) -> list[Diagnostic]:
        """Rules that match nothing, do nothing, or grant less than they seem to, one line each.

        Args:
            tools: the tools to try them on. A rule for a server that is configured and has no tools here is not
                reported.
        """
        known = list(tools)
        inventory = self._inventory.extended((tool.server, tool.name) for tool in known)
        return [
            Diagnostic("warning", f"{rule.origin}: {show(rule.text)} {problem}")
            for verdict in _STRICTEST_FIRST
            for rule in self._rules[verdict]
            if (problem := _problem(rule, verdict, known, inventory) or self._overruled(rule, verdict, known))
        ]

    def inert(self, tools: Iterable[ToolInfo]) -> list[Diagnostic]:
        """Deny and ask rules that cannot match, or match nothing of a server that has listed its tools; one line each.

        Fewer than `lint` finds: a rule for a server that has listed nothing, or is not configured here, is fine.

        Args:
            tools: everything that the servers listed, also what is not offered to a model.
        """
        known = list(tools)
        names, servers = {loose(tool.name) for tool in known}, {tool.server for tool in known}
        return [
            Diagnostic("warning", f"{rule.origin}: {show(rule.text)} {problem}")
            for verdict in _STRICTEST_FIRST[:-1]
            for rule in self._rules[verdict]
            if (problem := self._inert(rule, verdict, known, names, servers))
        ]

    def _inert(
        self, rule: Rule, verdict: Verdict, tools: list[ToolInfo], names: set[str], servers: set[str]
    ) -> str | None:
        if rule.problem:
            return rule.problem if not rule.foreign or loose(rule.body) in names else None
        if not self._inventory.names_server(rule, servers) or any(self._match(rule, verdict, t).hit for t in tools):
            return None
        return "matches no tool"

    def _overruled(self, rule: Rule, verdict: Verdict, tools: list[ToolInfo]) -> str | None:
        """Says so when stricter rules decide for every tool that this one matches."""
        matched = [tool for tool in tools if self._match(rule, verdict, tool).hit]
        stricter = _STRICTEST_FIRST[: _STRICTEST_FIRST.index(verdict)]
        if matched and not rule.everything and all(self.decide(tool).effect in stricter for tool in matched):
            return "decides nothing: stricter rules match every tool that it matches"
        return None

    def _decide(self, tool: ToolInfo) -> Decision:
        for verdict in _STRICTEST_FIRST:
            for rule in self._rules[verdict]:
                if self._match(rule, verdict, tool).hit:
                    return Decision(verdict, rule.text, f"{rule.origin} ({verdict}): {show(rule.text)}")
        return self._by_mode(tool)

    def _by_mode(self, tool: ToolInfo) -> Decision:
        if self.mode == "autonomous":
            return Decision("allow", None, "no rule matches; the mode autonomous runs it")
        if self.mode == "cautious" and may_run_concurrently(tool):
            return Decision("allow", None, "no rule matches; the mode cautious runs tools that say they only read")
        if self.mode == "strict":
            return Decision("deny", None, "no rule allows it; the mode strict denies it")
        return Decision("ask", None, f"no rule matches; the mode {self.mode} asks")

    def _match(self, rule: Rule, verdict: Verdict, tool: ToolInfo) -> Match:
        return _match(rule, verdict, (tool.server, tool.name), self._inventory)


def _match(rule: Rule, verdict: Verdict, pair: tuple[str, str], inventory: Inventory) -> Match:
    return inventory.grants(rule, pair) if verdict == "allow" else inventory.touches(rule, pair)


def _problem(rule: Rule, verdict: Verdict, tools: list[ToolInfo], inventory: Inventory) -> str | None:
    if rule.foreign and loose(rule.body) not in {loose(tool.name) for tool in tools}:
        return None  # about a tool that is none of ours
    if rule.problem:
        return rule.problem
    if rule.everything and verdict == "allow":
        return "does nothing in allow: list the servers one by one"
    if rule.bare and verdict == "allow":
        return "does nothing in allow: a bare tool name could be any server's; write mcp__<server>__<tool>"
    matches = [_match(rule, verdict, (tool.server, tool.name), inventory) for tool in tools]
    if any(match.hit for match in matches):
        return None
    whys = [match.why for match in matches if match.why]
    if whys:
        return f"grants nothing: {whys[0]}"
    if rule.everything or inventory.waits_for(rule, {tool.server for tool in tools}):
        return None
    return "matches no tool"
