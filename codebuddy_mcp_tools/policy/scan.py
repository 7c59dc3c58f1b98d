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
    r"""Whether a pattern occurs in a text. Compiled on first use; half surrogate pairs count as U+FFFF.

    `\b` means the end of an ASCII word (Unicode's word ends cost ten times as much); `^` and `$` match at lines.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = "(?m)" + pattern.replace(r"\b", r"(?-u:\b)")
        self._validator: jsonschema_rs.Validator | None = None

    def __call__(self, text: str) -> bool:
        if self._validator is None:
            linear = jsonschema_rs.RegexOptions()
            self._validator = jsonschema_rs.validator_for({"pattern": self._pattern}, pattern_options=linear)
        try:
            return self._validator.is_valid(text)
        except UnicodeEncodeError:
            return self._validator.is_valid(_LONE_SURROGATE.sub("\uffff", text))
