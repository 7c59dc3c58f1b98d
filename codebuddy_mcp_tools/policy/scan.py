"""Looking for a pattern in a text that somebody else wrote and that may be megabytes long.

Policy: the regular expression engine is that of jsonschema-rs, which is here anyway for the schemas of strangers. It
is linear for every pattern and every text, and some twenty times faster than `re` at finding that there is nothing.
It has no look-around and gives no positions: where something was found, `re` looks again.
"""

from __future__ import annotations

import re

import jsonschema_rs

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Scan:
    r"""Whether any of some patterns occurs in a text. Compiled on first use; half surrogate pairs count as U+FFFF.

    Several patterns are looked for one after another in one call, which is faster than one with alternatives where
    each has literals of its own. `\b` means the end of an ASCII word (Unicode's word ends cost ten times as much); `^`
    and `$` match at lines.
    """

    def __init__(self, *patterns: str) -> None:
        self._patterns = ["(?m)" + pattern.replace(r"\b", r"(?-u:\b)") for pattern in patterns]
        self._validator: jsonschema_rs.Validator | None = None

    def __call__(self, text: str) -> bool:
        if self._validator is None:
            schema = {"anyOf": [{"pattern": pattern} for pattern in self._patterns]}
            self._validator = jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions())
        try:
            return self._validator.is_valid(text)
        except UnicodeEncodeError:
            return self._validator.is_valid(_LONE_SURROGATE.sub("\uffff", text))
