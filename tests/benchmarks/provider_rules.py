"""The rules that OpenAI, Anthropic and Gemini publish or enforce for the schema of a tool, as checks on what is sent.

Each check gets what the provider's LangChain package really puts into the request, and returns one line per broken
rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import httpx
import jsonschema
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import BaseTool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TOP_LEVEL = ("oneOf", "anyOf", "allOf", "enum", "not")
_ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}


@cache
def _openai() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-5", api_key="none")


@cache
def _anthropic() -> ChatAnthropic:
    return ChatAnthropic(model_name="claude-sonnet-4-5", api_key="none", timeout=1, stop=None)


@cache
def _gemini() -> tuple[ChatGoogleGenerativeAI, list[dict[str, Any]]]:
    """The model, and the bodies of the requests that it makes; they are answered in the process."""
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json=_ANSWER)

    transport = httpx.MockTransport(answer)
    model = ChatGoogleGenerativeAI(
        model="gemini-2.5-flash", google_api_key="none", client_args={"transport": transport}, max_retries=1
    )
    return model, bodies


def openai_tool(tool: BaseTool) -> dict[str, Any]:
    """The tool as ChatOpenAI sends it."""
    sent: dict[str, Any] = _openai().bind_tools([tool]).kwargs["tools"][0]["function"]
    return sent


def anthropic_tool(tool: BaseTool) -> dict[str, Any]:
    """The tool as ChatAnthropic sends it."""
    sent: dict[str, Any] = dict(_anthropic().bind_tools([tool]).kwargs["tools"][0])
    return sent


def gemini_tool(tool: BaseTool) -> dict[str, Any]:
    """The tool as ChatGoogleGenerativeAI sends it, read from the body of the request."""
    model, bodies = _gemini()
    model.bind_tools([tool]).invoke("hi")
    sent: dict[str, Any] = bodies.pop()["tools"][0]["functionDeclarations"][0]
    return sent


def openai_problems(sent: Mapping[str, Any]) -> Iterator[str]:
    """What the OpenAI API would refuse."""
    yield from _common(sent["name"], sent["parameters"])
    if "strict" in sent:
        yield "strict mode is on"
    for path, node in nodes(sent["parameters"]):
        if node.get("type") == "array" and "items" not in node:
            yield f"{path}: array schema missing items"
        pattern = node.get("pattern")
        if isinstance(pattern, str):
            try:
                re.compile(pattern)
            except re.error:
                yield f"{path}: {pattern!r} is not a 'regex'"


def anthropic_problems(sent: Mapping[str, Any]) -> Iterator[str]:
    """What the Anthropic API would refuse."""
    yield from _common(sent["name"], sent["input_schema"])
    for name in sent["input_schema"].get("properties", {}):
        if not ANTHROPIC_KEY.fullmatch(name):
            yield f"property {name!r} should match pattern {ANTHROPIC_KEY.pattern}"


def gemini_problems(sent: Mapping[str, Any]) -> Iterator[str]:
    """What the Gemini API would refuse. A tool without arguments has no `parameters` at all."""
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", sent["name"]):
        yield f"function name {sent['name']!r}"
    if (root := sent.get("parameters")) is not None:
        if root.get("type") != "OBJECT" or not root.get("properties"):
            yield "parameters: should be a non-empty OBJECT"
        yield from _gemini_node("parameters", root)


def _gemini_node(path: str, node: Mapping[str, Any]) -> Iterator[str]:
    kind = node.get("type")
    branches = node.get("anyOf") or node.get("any_of") or ()
    if kind is None and not branches:
        yield f"{path}: didn't specify the schema type field"
    if "enum" in node:
        if kind != "STRING":
            yield f"{path}.enum: only allowed for STRING type"
        if not all(isinstance(value, str) and value for value in node["enum"]):
            yield f"{path}.enum: cannot be empty"
    if kind != "OBJECT" and ("properties" in node or node.get("required")):
        yield f"{path}.properties: only allowed for OBJECT type"
    if kind == "ARRAY" and "items" not in node:
        yield f"{path}.items: missing field"
    for name in node.get("required", ()):
        if name not in node.get("properties", {}):
            yield f"{path}.required: property {name!r} is not defined"
    for name, below in node.get("properties", {}).items():
        yield from _gemini_node(f"{path}.{name}", below)
    for index, below in enumerate(branches):
        yield from _gemini_node(f"{path}.any_of[{index}]", below)
    if isinstance(node.get("items"), Mapping):
        yield from _gemini_node(f"{path}.items", node["items"])


def _common(name: str, root: Mapping[str, Any]) -> Iterator[str]:
    if not NAME.fullmatch(name):
        yield f"tool name {name!r} should match {NAME.pattern}"
    if root.get("type") != "object":
        yield f"schema must have type 'object', has {root.get('type')!r}"
    if not isinstance(root.get("properties"), Mapping):
        yield "object schema missing properties"
    yield from (f"{keyword!r} at the top level" for keyword in _TOP_LEVEL if keyword in root)
    try:
        jsonschema.Draft202012Validator.check_schema(root)
    except jsonschema.SchemaError as error:
        yield f"not JSON Schema 2020-12: {error.message[:120]}"
    try:
        json.dumps(root, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        yield f"cannot be sent as JSON: {error}"
    yield from (f"{path}: reference left in" for path, node in nodes(root) if "$ref" in node)


def nodes(schema: Any, path: str = "parameters") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema in a schema of the bound form, with its path."""
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for keyword in ("properties", "patternProperties", "$defs"):
        for name, below in (schema.get(keyword) or {}).items():
            yield from nodes(below, f"{path}.{name}")
    for keyword in ("items", "additionalProperties", "not"):
        yield from nodes(schema.get(keyword), f"{path}.{keyword}")
    for index, below in enumerate(schema.get("anyOf") or ()):
        yield from nodes(below, f"{path}.anyOf[{index}]")
