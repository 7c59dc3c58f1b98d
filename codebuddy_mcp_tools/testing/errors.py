"""What can be wrong with a script. Stands alone: this room imports nothing else of the package."""

from __future__ import annotations


class ScriptError(Exception):
    """A fault script says something that cannot be done; the text names the place and the step."""
