"""Phrases in a server's text that try to talk to the model. A hit is a signal for people, never a reason to block.

Policy: a short list of patterns with few false alarms; what is found is logged, audited, put into the artifact and
the status. No list of phrases stops an attack, and a legitimate page about prompt injection has hits too: so nothing
is decided by it. Each pattern has literal words that must occur before its regular expression is tried, and no
pattern repeats without a bound: the scan is linear and costs a few microseconds for ordinary text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG_CHARACTERS = re.compile("[\U000e0001-\U000e007f]")
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class _Signal:
    name: str
    words: tuple[str, ...]
    """Lower-case literals; at least one must occur."""
    pattern: re.Pattern[str]
    """Searched in the lower-cased text."""


def _signal(name: str, words: str, pattern: str) -> _Signal:
    return _Signal(name, tuple(words.split("|")), re.compile(pattern, re.MULTILINE))


_S = r"[\s\"'`*_-]{1,8}"  # between two words
_SIGNALS = (
    _signal(
        "ignore_instructions",
        "ignore|disregard|forget|override|bypass",
        rf"\b(?:ignore|disregard|forget|override|bypass){_S}(?:all{_S}|any{_S}|every{_S})?(?:of{_S})?(?:the{_S}|your{_S}|my{_S}|these{_S})?"
        rf"(?:previous|prior|above|earlier|preceding|existing|system|safety|other|former)\b(?:{_S}\w{{1,20}}){{0,2}}?{_S}"
        r"(?:instruction|prompt|rule|message|direction|guideline|command|context|polic)",
    ),
    _signal(
        "new_instructions",
        "instruction",
        rf"\b(?:new|updated|real|actual|secret){_S}(?:system{_S})?instructions?(?:{_S})?:",
    ),
    _signal(
        "role_change",
        "you are|from now|pretend|developer mode",
        rf"\b(?:you{_S}are{_S}now{_S}(?:a|an|the|in)\b|from{_S}now{_S}on,?{_S}you\b|pretend{_S}(?:to{_S}be|you)\b"
        rf"|developer{_S}mode\b|you{_S}are{_S}no{_S}longer\b)",
    ),
    _signal(
        "fake_role",
        "system|assistant|human|user|developer",
        r"^[\s#*\[<]{0,6}(?:system|assistant|developer)(?:\s(?:message|prompt|note|override))?[\]>*]{0,3}:\s?\S"
        r"|^\s{0,4}\[(?:system|assistant|developer)\]",
    ),
    _signal(
        "chat_template",
        "<|im_|<|start|<|end|<|system|<|user|<|assistant|[inst]|[/inst]|<<sys>>|<start_of_turn>|<|eot_id|<|begin_of",
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text|channel"
        r"|start|end|message)\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>",
    ),
    _signal(
        "fake_tag",
        "important|system|instruction|admin|secret|tool_|function_|assistant",
        r"<\s?/?\s?(?:important|system(?:[_-](?:prompt|reminder|message|note|instruction)s?)?|instructions?|admin|secret|assistant"
        r"|tool_(?:result|use|call|response)s?|function_(?:result|call)s?)\s?>",
    ),
    _signal(
        "hide_from_user",
        "user|human|mention",
        rf"\b(?:(?:do{_S}not|don['’]?t|never|without){_S}(?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|notify"
        rf"|notifying|alert|alerting|show|showing|ask|asking)(?:{_S}(?:this|it|that|anything))?(?:{_S}to)?{_S}(?:the{_S})?(?:user|human)s?\b"
        rf"|keep{_S}(?:this|it){_S}(?:secret|hidden){_S}from\b)",
    ),
    _signal(
        "tool_steering",
        "tool|function",
        rf"\b(?:before|after|instead{_S}of|prior{_S}to){_S}(?:using|calling|invoking|you{_S}use|you{_S}call)"
        rf"{_S}(?:this|any|the|other|another){_S}(?:\w{{1,40}}{_S})?(?:tool|function)s?\b.{{0,60}}?\b(?:must|always|first|read|call|send|pass|use)\b"
        rf"|\b(?:always|must|immediately){_S}(?:call|use|invoke|run){_S}(?:the{_S})?[\w.-]{{1,80}}{_S}(?:tool|function){_S}(?:first|instead|before)",
    ),
    _signal(
        "secret_request",
        ".ssh|id_rsa|.env|api key|api_key|apikey|password|credential|mcp.json|token|private key",
        r"(?:\b(?:read|send|include|paste|attach|provide|upload|exfiltrate|print|post|pass|copy|leak)\b.{0,60}?"
        r"(?:\.ssh/|id_rsa|/\.env\b|\bapi[ _-]?keys?\b|\bpasswords?\b|\bcredentials?\b|mcp\.json"
        r"|\baccess[ _-]tokens?\b|\bprivate[ _-]keys?\b))",
    ),
    _signal("image_beacon", "![", r"!\[[^\]\n]{0,200}\]\(\s?https?://[^\s)]{1,300}[?&][^\s)=]{1,60}=[^\s)]"),
)


def find_injection_signals(text: str) -> tuple[str, ...]:
    """The names of the signals found, in a fixed order; `()` for nearly every text.

    Give the text as the server sent it: hidden characters are a signal too (`hidden_text`, `direction_override`,
    `terminal_escape`).
    """
    lowered = text.lower()
    found = [
        signal.name
        for signal in _SIGNALS
        if any(word in lowered for word in signal.words) and signal.pattern.search(lowered)
    ]
    if "\x1b" in text or "\x9b" in text:
        found.append("terminal_escape")
    if not text.isascii():
        if _TAG_CHARACTERS.search(text):
            found.append("hidden_text")
        if _DIRECTION.search(text):
            found.append("direction_override")
    return tuple(found)
