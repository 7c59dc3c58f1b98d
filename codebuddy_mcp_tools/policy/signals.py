"""Phrases in a server's text that try to talk to the model. A hit is a signal for people, never a reason to block.

Policy: a short list of patterns with few false alarms; what is found is logged, audited, put into the artifact and
the status. No list of phrases stops an attack, and a legitimate page about prompt injection has hits too: so nothing
is decided by it.

The patterns run in a linear engine (see `scan`), and only on what a first look (`screen`) did not find ordinary.
"""

from __future__ import annotations

from codebuddy_mcp_tools.policy.scan import Scan
from codebuddy_mcp_tools.policy.screen import look

_GAP = r"[\s\"'`*_-]{1,8}"  # between two words


def _phrase(*words: str) -> str:
    """A pattern of words, each an alternation; one that ends in `?` may be missing."""
    parts = [f"(?:(?:{word[:-1]}){_GAP})?" if word.endswith("?") else f"(?:{word}){_GAP}" for word in words[:-1]]
    return rf"\b{''.join(parts)}(?:{words[-1]})"


_PATTERNS = {
    "ignore_instructions": _phrase(
        "ignore|disregard|forget|override|bypass",
        "all|any|every?",
        "of?",
        "the|your|my|these?",
        "previous|prior|above|earlier|preceding|existing|system|safety|other|former",
        "[a-z]{1,20}?",
        "[a-z]{1,20}?",
        "instruction|prompt|rule|message|direction|guideline|command|context|polic",
    ),
    "new_instructions": _phrase("new|updated|real|actual|secret", "system?", rf"instructions?(?:{_GAP})?:"),
    "role_change": "|".join(
        (
            _phrase("you", "are", "now", r"(?:a|an|the|in)\b"),
            _phrase("from", "now", "on,{0,1}", r"you\b"),
            _phrase("pretend", "to?", r"(?:be|you)\b"),
            _phrase("developer", r"mode\b"),
            _phrase("you", "are", "no", r"longer\b"),
        )
    ),
    "fake_role": r"\n[ \t#*\[<]{0,6}(?:system|assistant|developer)(?: (?:message|prompt|note|override))?"
    r"[\]>*]{0,3}: ?\S"
    r"|\n[ \t]{0,4}\[(?:system|assistant|developer)\]",
    "chat_template": r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id"
    r"|start|end|begin_of_text|channel|message)\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>",
    "fake_tag": r"<\s?/?\s?(?:important|system(?:[_-](?:prompt|reminder|message|note|instruction)s?)?|instructions?"
    r"|admin|secret|assistant|tool_(?:result|use|call|response)s?|function_(?:result|call)s?)\s?>",
    "hide_from_user": "|".join(
        (
            _phrase(
                f"do{_GAP}not|don['’]?t|never|without",
                "(?:tell|inform|mention|reveal|notify|alert|show|ask)(?:ing|)",
                "this|it|that|anything?",
                "to?",
                "the?",
                r"(?:user|human)s?\b",
            ),
            _phrase("keep", "this|it", "secret|hidden", r"from\b"),
        )
    ),
    "tool_steering": "|".join(
        (
            _phrase(
                f"before|after|instead{_GAP}of|prior{_GAP}to",
                f"using|calling|invoking|you{_GAP}use|you{_GAP}call",
                "this|any|the|other|another",
                "[a-z0-9_.-]{1,40}?",
                r"(?:tool|function)s?\b.{0,60}?\b(?:must|always|first|read|call|send|pass|use)\b",
            ),
            _phrase(
                "always|must|immediately",
                "call|use|invoke|run",
                "the?",
                "[a-z0-9_.-]{1,80}",
                "tool|function",
                "first|instead|before",
            ),
        )
    ),
    "secret_request": r"\b(?:read|send|include|paste|attach|provide|upload|exfiltrate|print|post|pass|copy|leak)\b"
    r".{0,60}?(?:\.ssh/|id_rsa|/\.env\b|\bapi[ _-]?keys?\b|\bpasswords?\b|\bcredentials?\b|mcp\.json"
    r"|\baccess[ _-]tokens?\b|\bprivate[ _-]keys?\b)",
    "image_beacon": r"!\[[^\]\n]{0,200}\]\(\s?https?://[^\s)]{1,300}[?&][^\s)=]{1,60}=[^\s)]",
}
_SCANS = tuple((name, Scan(pattern)) for name, pattern in _PATTERNS.items())
_DIRECTION = Scan(r"[\x{202a}-\x{202e}\x{2066}-\x{2069}]")


def find_injection_signals(text: str) -> tuple[str, ...]:
    """The names of the signals found, in a fixed order; `()` for nearly every text.

    Give the text as the server sent it: hidden characters are a signal too (`hidden_text`, `direction_override`,
    `terminal_escape`).
    """
    return () if look(text).silent else search_for_signals(text)


def search_for_signals(text: str) -> tuple[str, ...]:
    """The same without a first look."""
    # `str.lower` is slow for other scripts; only ASCII letters matter here.
    raw = text.encode("utf-8", "replace")
    lowered = "\n" + raw.lower().decode("utf-8")
    found = [name for name, occurs in _SCANS if occurs(lowered)]
    other_scripts = not text.isascii()
    if "\x1b" in text or (other_scripts and "\x9b" in text):
        found.append("terminal_escape")
    if other_scripts and (b"\xf3\xa0\x80" in raw or b"\xf3\xa0\x81" in raw):  # U+E0000 to U+E007F
        found.append("hidden_text")
    if other_scripts and _DIRECTION(text):
        found.append("direction_override")
    return tuple(found)
