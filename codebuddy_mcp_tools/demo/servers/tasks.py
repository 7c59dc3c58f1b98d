"""A task list in a SQLite file, as an MCP server with read and write tools.

`python -m codebuddy_mcp_tools.demo.servers.tasks --database tasks.db [--sample] [--transport http] [--port N]`
"""

from __future__ import annotations

from datetime import date
from typing import Annotated

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field

from codebuddy_mcp_tools.demo.servers.serving import argument_parser, serve
from codebuddy_mcp_tools.demo.servers.store import Status, Task, TaskStore

READ = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
ADD = ToolAnnotations(readOnlyHint=False, destructiveHint=False, idempotentHint=False, openWorldHint=False)
SET = ToolAnnotations(readOnlyHint=False, destructiveHint=False, idempotentHint=True, openWorldHint=False)
DELETE = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=True, openWorldHint=False)

Identity = Annotated[int, Field(description="The number of the task, as the other tools show it")]
Title = Annotated[str, Field(min_length=1, max_length=200, description="What is to be done, in one line")]


def build_server(store: TaskStore) -> FastMCP[None]:
    """The server over a store."""
    server: FastMCP[None] = FastMCP(
        "tasks", log_level="WARNING", instructions="A task list. Read a task back after changing it."
    )
    _add_reads(server, store)
    _add_writes(server, store)

    @server.resource("tasks://open", mime_type="text/plain", description="The open tasks, one a line")
    def open_tasks() -> str:
        return "\n".join(f"{task.id}. {task.title}" for task in store.find("open"))

    @server.prompt(description="Plan a day from the open tasks")
    def plan_day(day: str, hours: str = "6") -> str:
        titles = "\n".join(f"- {task.title}" for task in store.find("open"))
        return f"Plan {day} with {hours} hours of work from these open tasks:\n{titles}"

    return server


def _add_reads(server: FastMCP[None], store: TaskStore) -> None:
    @server.tool(title="List tasks", annotations=READ)
    def list_tasks(
        status: Status = "open", limit: Annotated[int, Field(ge=1, le=500, description="At most so many")] = 50
    ) -> list[Task]:
        """List tasks, the earliest due date first."""
        return store.find(status, limit=limit)

    @server.tool(title="Search tasks", annotations=READ)
    def search_tasks(
        text: Annotated[str, Field(min_length=1, description="Text in the title or the notes, in any case")],
        status: Status = "all",
    ) -> list[Task]:
        """Find tasks that contain a text."""
        return store.find(status, text)

    @server.tool(title="Get a task", annotations=READ)
    def get_task(task_id: Identity) -> Task:
        """Show one task with all its fields."""
        return store.get(task_id)


def _add_writes(server: FastMCP[None], store: TaskStore) -> None:
    @server.tool(title="Add a task", annotations=ADD)
    def add_task(title: Title, notes: str = "", due: date | None = None) -> Task:
        """Add an open task and return it."""
        return store.add(title, notes, None if due is None else due.isoformat())

    @server.tool(title="Change a task", annotations=SET)
    def update_task(
        task_id: Identity, title: Title | None = None, notes: str | None = None, due: date | None = None
    ) -> Task:
        """Change those fields of a task that are given."""
        given = {"title": title, "notes": notes, "due": None if due is None else due.isoformat()}
        return store.change(task_id, **{name: value for name, value in given.items() if value is not None})

    @server.tool(title="Complete a task", annotations=SET)
    def complete_task(task_id: Identity) -> Task:
        """Mark a task as done."""
        return store.change(task_id, done=1)

    @server.tool(title="Delete a task", annotations=DELETE)
    def delete_task(task_id: Identity) -> Task:
        """Remove a task for good and return what it was."""
        return store.delete(task_id)


def main() -> None:
    """Read the command line and serve."""
    parser = argument_parser("A task list in a SQLite file, as an MCP server")
    parser.add_argument("--database", default=":memory:", help="the SQLite file; in memory if not given")
    parser.add_argument("--sample", action="store_true", help="put three sample tasks into an empty list")
    options = parser.parse_args()
    store = TaskStore(options.database)
    if options.sample:
        store.fill()
    serve(build_server(store), options.transport, options.port)


if __name__ == "__main__":
    main()
