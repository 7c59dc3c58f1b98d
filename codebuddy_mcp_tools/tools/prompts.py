"""Prompts of servers as slash commands, `/server:prompt`, and their messages as LangChain messages.

Policy: what a prompt renders to is a server's text, so each message's text stands in an envelope, whatever role it
claims; a server cannot speak as the system, and only `user` and `assistant` exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy import clean_description, clean_line, fold
from codebuddy_mcp_tools.tools.content import render
from codebuddy_mcp_tools.tools.envelope import enclose_text
from codebuddy_mcp_tools.types import CallResult, PromptInfo, PromptMessage, SlashCommand, ToolInfo


def slash_command(prompt: PromptInfo) -> SlashCommand:
    """The command of one prompt; its texts are cleaned."""
    return SlashCommand(
        name=f"/{prompt.server}:{clean_line(prompt.name, 100)}",
        server=prompt.server,
        prompt=prompt.name,
        description=clean_description(prompt.description or prompt.title or ""),
        arguments=prompt.arguments,
    )


def find_command(text: str, commands: Sequence[SlashCommand]) -> SlashCommand:
    """The command a person typed, with or without the slash, in any case.

    Raises:
        ConfigError: no command has that name, or several have.
    """
    wanted = text.strip().removeprefix("/")
    exact = [c for c in commands if c.name == f"/{wanted}"]
    loose = [c for c in commands if fold(c.name.removeprefix("/")).casefold() == fold(wanted).casefold()]
    found = exact or loose
    if len(found) == 1:
        return found[0]
    what = "is not known" if not found else "is ambiguous"
    names = ", ".join(c.name for c in found or commands) or "none"
    raise ConfigError(f"command {clean_line('/' + wanted, 80)} {what}; commands: {names}")


def check_arguments(command: SlashCommand, arguments: Mapping[str, str]) -> dict[str, str]:
    """The arguments as the protocol wants them, text to text.

    Raises:
        ConfigError: a required one is missing, or one is not known.
    """
    known = {a.name for a in command.arguments}
    missing = [a.name for a in command.arguments if a.required and a.name not in arguments]
    if missing:
        raise ConfigError(f"command {command.name} needs the argument {', '.join(missing)}")
    unknown = [name for name in arguments if name not in known]
    if unknown:
        takes = ", ".join(a.name for a in command.arguments) or "none"
        raise ConfigError(f"command {command.name} has no argument {', '.join(unknown)}; it takes: {takes}")
    return {name: str(value) for name, value in arguments.items()}


def to_messages(command: SlashCommand, messages: Sequence[PromptMessage]) -> list[BaseMessage]:
    """The rendered prompt as LangChain messages, each enveloped."""
    return [_message(command, message) for message in messages]


def _message(command: SlashCommand, message: PromptMessage) -> BaseMessage:
    source = ToolInfo(server=command.server, name=command.prompt)
    rendered = render(CallResult(content=(message.content,)), source)
    content: Any = enclose_text(source, rendered.text, rendered.blocks)
    return AIMessage(content) if message.role == "assistant" else HumanMessage(content)
