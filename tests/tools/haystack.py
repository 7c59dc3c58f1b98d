"""A few tools to be found, and an index of them."""

from __future__ import annotations

from collections.abc import Iterable

from codebuddy_mcp_tools.tools.search import SearchIndex
from codebuddy_mcp_tools.types import ToolInfo


def tool(server: str, name: str, description: str = "", title: str | None = None, **arguments: str) -> ToolInfo:
    """A tool whose arguments are texts."""
    properties = {argument: {"type": "string", "description": about} for argument, about in arguments.items()}
    return ToolInfo(server, name, description, title, {"type": "object", "properties": properties})


def index_of(tools: Iterable[ToolInfo]) -> SearchIndex:
    """An index under the visible names."""
    index = SearchIndex()
    for one in tools:
        index.add(f"mcp__{one.server}__{one.name}", one)
    return index


TOOLS = (
    tool("github", "create_issue", "Open a new issue in a repository.", title="New issue", body="text of the issue"),
    tool("github", "list_issues", "List the issues of a repository.", state="open or closed"),
    tool("github", "merge_pull_request", "Merge a pull request."),
    tool("github", "delete_repository", "Delete a repository for good."),
    tool("linear", "create_issue", "File a new issue for a team."),
    tool("filesystem", "read_text_file", "Read the complete contents of a file.", path="where the file is"),
    tool("filesystem", "write_file", "Create a file or overwrite it.", path="where", content="what to write"),
    tool("weather", "getForecast", "Weather forecast for a place.", latitude="degrees north"),
    tool("mail", "send-email", "Send an e-mail to one or more people.", recipient="address"),
    tool("tiempo", "pronóstico", "Pronóstico del tiempo para una ciudad."),
    tool("strasse", "Straßensuche", "Findet Straßen in einer Stadt."),
    tool("日本", "検索", "ファイルを検索します。"),
    tool("k8s", "podsList", "List the pods of a namespace."),
    tool("slack", "post_message", "Post a message to a channel."),
)
