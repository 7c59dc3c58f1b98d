"""A person's answer for the calls of one turn that a rule wants asked about.

One interrupt for the turn, before anything of it runs, in LangChain's human-in-the-loop form, so that LangGraph
Studio and Agent Chat show it. Answered with `Command(resume={"decisions": [{"type": "approve"}, …]})`, one decision
for each request in order. `approve` may carry `"scope": "session"`: the tool is not asked about again in this thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.runtime import get_runtime
from langgraph.types import interrupt

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.tools.arguments import ArgumentError
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.types import Outcome

ALLOWED = ["approve", "edit", "reject", "respond"]


@dataclass(frozen=True, slots=True)
class Question:
    """One call that must be asked about, and the tool it reaches."""

    call: ToolCall
    tool: MCPTool
    reason: str


@dataclass(slots=True)
class Answers:
    """What a person decided about a turn."""

    granted: list[str] = field(default_factory=list)
    """Ids of calls that may run."""
    for_session: list[str] = field(default_factory=list)
    """Visible names of tools that need no further question in this thread."""
    refused: list[ToolMessage] = field(default_factory=list)
    """Answers for the calls that do not run."""
    edited: dict[str, ToolCall] = field(default_factory=dict)
    """Call id to the call as the person changed it."""

    def apply(self, message: AIMessage) -> AIMessage:
        """The model's message with the edited calls in place; the same object when nothing was edited."""
        if not self.edited:
            return message
        calls = [self.edited.get(call["id"] or "", call) for call in message.tool_calls]
        return message.model_copy(update={"tool_calls": calls})


def ask(questions: Sequence[Question]) -> Answers:
    """Interrupt the run with all questions, and read the answers when it is resumed.

    Raises:
        ConfigError: the graph has no checkpointer, so it could never be resumed; or the answers do not fit.
        GraphInterrupt: LangGraph's own, to pause the run.
    """
    require_checkpointer()
    answer = interrupt(request(questions))
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else answer
    if not isinstance(decisions, Sequence) or isinstance(decisions, str) or len(decisions) != len(questions):
        count = len(decisions) if isinstance(decisions, Sequence) and not isinstance(decisions, str) else "no"
        raise ConfigError(
            f"the run was resumed with {count} decisions for {len(questions)} calls; "
            'resume with Command(resume={"decisions": [{"type": "approve"}, …]}), one for each'
        )
    answers = Answers()
    for question, decision in zip(questions, decisions, strict=True):
        _take(answers, question, decision)
    return answers


def require_checkpointer() -> None:
    """Raise `ConfigError` when the running graph keeps no checkpoints."""
    info = get_runtime().execution_info
    if info is not None and info.thread_id is None:
        raise ConfigError(
            "a tool call needs a person's approval, and this graph has no checkpointer to wait with: "
            "compile it with one (graph.compile(checkpointer=InMemorySaver())) and give the run a thread_id, "
            "or allow the tool in `permissions`"
        )


def request(questions: Sequence[Question]) -> dict[str, Any]:
    """LangChain's `HITLRequest` for these calls."""
    return {
        "action_requests": [
            {"name": q.call["name"], "args": q.call["args"], "description": _description(q)} for q in questions
        ],
        "review_configs": [{"action_name": q.call["name"], "allowed_decisions": list(ALLOWED)} for q in questions],
    }


def _description(question: Question) -> str:
    info = question.tool.info
    arguments = json.dumps(question.call["args"], ensure_ascii=False, indent=2, default=str)
    return f"Tool {info.name} of MCP server {info.server} wants to run ({question.reason}).\n{arguments}"


def _take(answers: Answers, question: Question, decision: Any) -> None:
    kind = decision.get("type") if isinstance(decision, Mapping) else decision
    call_id = question.call["id"] or ""
    match kind:
        case "approve":
            answers.granted.append(call_id)
            if isinstance(decision, Mapping) and decision.get("scope") == "session":
                answers.for_session.append(question.tool.name)
        case "edit":
            _take_edit(answers, question, decision)
        case "reject":
            why = decision.get("message") if isinstance(decision, Mapping) else None
            text = why or "Do not try this call again unless the user asks for it."
            answers.refused.append(_answer(question, f"The user rejected this call; it did not run. {text}", "error"))
        case "respond":
            answers.refused.append(_answer(question, str(decision.get("message", "")), "success"))
        case _:
            raise ConfigError(f"decision {kind!r} is not known; a call is answered with {', '.join(ALLOWED)}")


def _take_edit(answers: Answers, question: Question, decision: Mapping[str, Any]) -> None:
    action = decision.get("edited_action")
    call_id = question.call["id"] or ""
    if not isinstance(action, Mapping) or not isinstance(action.get("args"), Mapping):
        raise ConfigError('decision "edit" needs "edited_action": {"name": …, "args": {…}}')
    name = action.get("name", question.call["name"])
    if name != question.call["name"]:
        raise ConfigError(f"an edit cannot turn a call of {question.call['name']!r} into one of {name!r}; reject it")
    edited = ToolCall(name=name, args=dict(action["args"]), id=call_id, type="tool_call")
    arguments = edited["args"].get("arguments", {}) if name == "execute_tool" else edited["args"]
    try:
        question.tool.checker.check(arguments)
    except ArgumentError as error:
        text = f"The user edited this call, and the edited arguments do not fit: {error} It did not run."
        answers.refused.append(_answer(question, text, "error"))
        return
    answers.edited[call_id] = edited
    answers.granted.append(call_id)


def _answer(question: Question, text: str, status: str) -> ToolMessage:
    info = question.tool.info
    artifact = {
        "server": info.server, "tool": info.name, "duration_ms": 0.0, "is_error": status == "error",
        "effect": str((question.tool.metadata or {}).get("effect", "write")), "outcome": Outcome.NOT_RUN.value,
    }  # fmt: skip
    return ToolMessage(
        text, name=question.call["name"], tool_call_id=question.call["id"] or "", status=status, artifact=artifact
    )
