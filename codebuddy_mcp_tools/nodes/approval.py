"""A person's answer for the calls of one turn that a rule wants asked about.

One interrupt for the turn, before anything of it runs, in LangChain's human-in-the-loop form, so that LangGraph
Studio and Agent Chat show it. Answered with `Command(resume={"decisions": [{"type": "approve"}, …]})`, one decision
for each request in order:

    {"type": "approve"}, {"type": "approve", "scope": "session"}    run it; do not ask about this tool in this thread
    {"type": "edit", "edited_action": {"name": …, "args": {…}}}     run that instead
    {"type": "reject", "message": …}                                do not run it; the message is optional
    {"type": "respond", "message": …}                               do not run it; answer the model with this

An answer that does not fit is asked for again, with what was wrong: an exception would leave the thread with an answer
that it could never get rid of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langchain_core.messages import ToolMessage
from langgraph.runtime import get_runtime
from langgraph.types import interrupt

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.nodes.schedule import Planned
from codebuddy_mcp_tools.policy import PermissionPolicy, clean_line
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.types import Outcome

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider

ALLOWED = ("approve", "edit", "reject", "respond")
SESSION = "session"
_MAX_NAMED = 5

Decision = dict[str, Any]
"""One answer as the state keeps it: `type`, and `name` and `args`, or `message`, or `scope`."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call that must be asked about, and the tool it reaches."""

    planned: Planned
    tool: MCPTool
    reason: str


def ask(questions: Sequence[Question]) -> dict[int, Decision]:
    """Interrupt the run with all questions, and read the answers when it is resumed.

    Returns:
        Call position to decision.

    Raises:
        ConfigError: the graph has no checkpointer, so it could never be resumed.
        GraphInterrupt: LangGraph's own, to pause the run.
    """
    if not can_wait():
        raise ConfigError(_NO_CHECKPOINTER.format(names=_named(q.tool.name for q in questions)))
    problem: str | None = None
    while True:
        decisions = read_answer(interrupt(request(questions, problem)), questions)
        if not isinstance(decisions, str):
            return decisions
        problem = decisions


# -- the question ------------------------------------------------------------------------------------------------


def request(questions: Sequence[Question], problem: str | None = None) -> dict[str, Any]:
    """LangChain's `HITLRequest` for these calls. `problem` says why an earlier answer was not taken."""
    head = f"The last answer was not taken: {problem}\n\n" if problem else ""
    return {
        "action_requests": [
            {"name": q.planned.call["name"], "args": q.planned.call["args"], "description": head + _description(q)}
            for q in questions
        ],
        "review_configs": [
            {"action_name": q.planned.call["name"], "allowed_decisions": list(ALLOWED)} for q in questions
        ],
    }


def _description(question: Question) -> str:
    info = question.tool.info
    arguments = json.dumps(question.planned.call["args"], ensure_ascii=False, indent=2, default=str)
    return f"Tool {clean_line(info.name)} of MCP server {info.server} wants to run ({question.reason}).\n{arguments}"


# -- the answer --------------------------------------------------------------------------------------------------


def read_answer(answer: Any, questions: Sequence[Question]) -> dict[int, Decision] | str:
    """The decisions, by position; or one line that says what is wrong with the answer."""
    given = answer.get("decisions") if isinstance(answer, Mapping) else answer
    if not isinstance(given, Sequence) or isinstance(given, str):
        return 'resume with Command(resume={"decisions": [{"type": "approve"}, …]}), one decision for each call'
    if len(given) != len(questions):
        names = ", ".join(q.planned.call["name"] for q in questions)
        return f"{len(given)} decisions for {len(questions)} calls ({names}); give one for each, in this order"
    decisions: dict[int, Decision] = {}
    for question, decision in zip(questions, given, strict=True):
        read = _decision(decision, question)
        if isinstance(read, str):
            return read
        decisions[question.planned.position] = read
    return decisions


def _decision(decision: Any, question: Question) -> Decision | str:
    kind = decision.get("type") if isinstance(decision, Mapping) else decision
    details: Mapping[str, Any] = decision if isinstance(decision, Mapping) else {}
    match kind:
        case "approve":
            return {"type": "approve", **({"scope": SESSION} if details.get("scope") == SESSION else {})}
        case "edit":
            return _edit(details.get("edited_action"), question)
        case "reject":
            return {"type": "reject", "message": str(details.get("message") or "")}
        case "respond" if isinstance(details.get("message"), str):
            return {"type": "respond", "message": details["message"]}
        case "respond":
            return 'a "respond" decision needs "message", a text'
    return f"decision {kind!r} is not known; a call is answered with {', '.join(ALLOWED)}"


def _edit(action: Any, question: Question) -> Decision | str:
    arguments = action.get("args") if isinstance(action, Mapping) else None
    if not isinstance(arguments, Mapping):
        return 'an "edit" decision needs "edited_action": {"name": …, "args": {…}}'
    return {"type": "edit", "name": str(action.get("name") or question.planned.call["name"]), "args": dict(arguments)}


def of_session(decisions: Mapping[int, Decision], questions: Sequence[Question]) -> list[str]:
    """Visible names of the tools that were allowed for the session."""
    allowed = {at for at, decision in decisions.items() if decision.get("scope") == SESSION}
    return list(dict.fromkeys(q.tool.name for q in questions if q.planned.position in allowed))


# -- what the model is told --------------------------------------------------------------------------------------


def refusal(planned: Planned, decision: Decision, tool: MCPTool | None) -> ToolMessage:
    """The answer to a call that a person did not let run, or answered themselves."""
    name = planned.call["name"]
    if decision["type"] == "respond":
        return answered(planned, decision["message"], tool, status="success", decision="respond")
    why = decision["message"]
    rest = f"Their reason: {why}" if why else "Do not try this call again unless the user asks for it."
    return answered(planned, f"The user rejected this call of {name}; it did not run. {rest}", tool, decision="reject")


def answered(planned: Planned, text: str, tool: MCPTool | None, *, status: str = "error", **facts: Any) -> ToolMessage:
    """The answer to a call that was not sent."""
    artifact: dict[str, Any] = {"duration_ms": 0.0, "is_error": status == "error", **facts}
    if tool is not None:
        effect = str((tool.metadata or {}).get("effect", "write"))
        artifact |= {"server": tool.info.server, "tool": tool.info.name, "effect": effect}
    artifact["outcome"] = Outcome.NOT_RUN.value
    call = planned.call
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"] or "", status=status, artifact=artifact)


def edit_notice(decision: Decision) -> str:
    """What stands before the result of a call that a person changed."""
    arguments = json.dumps(decision["args"], ensure_ascii=False, default=str)
    return (
        "Note: the user changed this call before it ran; your own message still shows what you asked for. Do not "
        f"repeat it. Run instead: {decision['name']} with arguments {arguments}."
    )


# -- no way to wait ----------------------------------------------------------------------------------------------

_NO_CHECKPOINTER = (
    "a person must be asked before {names} may run, and this graph has no checkpointer to wait with: compile it with "
    "one (graph.compile(checkpointer=InMemorySaver())) and give the run a thread_id, or allow the tool in `permissions`"
)


def can_wait() -> bool:
    """Whether the running graph keeps checkpoints, without which an interrupt could never be answered."""
    try:
        info = get_runtime().execution_info
    except (RuntimeError, KeyError, AttributeError):  # not inside a graph
        return False
    return info is not None and info.thread_id is not None


def asks_by_interrupt(provider: ToolProvider, allowed: Iterable[str] = ()) -> bool:
    """Whether calls that need an answer are asked about by an interrupt; without a checkpointer, the provider's
    `approval_handler` is asked, call by call.

    Called at the first step of a run: a graph that cannot wait must say so there, and not in the middle.

    Args:
        provider: whose tools.
        allowed: visible names of tools that need no question in this thread.

    Raises:
        ConfigError: a rule wants a tool asked about, there is no checkpointer, and no handler either.
    """
    if can_wait():
        return True
    if provider.approval_handler is not None:
        return False
    asking = _asking(provider) - frozenset(allowed)
    if asking:
        raise ConfigError(_NO_CHECKPOINTER.format(names=_named(sorted(asking))))
    return True


_known: WeakKeyDictionary[PermissionPolicy, tuple[int, frozenset[str]]] = WeakKeyDictionary()


def _asking(provider: ToolProvider) -> frozenset[str]:
    """Visible names of the tools that a rule wants asked about; worked out once for each set of rules and tools."""
    rules, generation = provider.permissions, provider.catalog.generation
    known = _known.get(rules)
    if known is None or known[0] != generation:
        names = frozenset(tool.name for tool in provider.catalog if tool.decision().effect == "ask")
        known = _known[rules] = (generation, names)
    return known[1]


def _named(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more
