"""Pure decisions about names, permissions, trust and addresses; each rule is written once, here."""

from codebuddy_mcp_tools.policy.effects import effect_of, may_replay, may_run_concurrently
from codebuddy_mcp_tools.policy.envelope import envelope
from codebuddy_mcp_tools.policy.names import Ambiguous, NameTable, NearMisses, fold, visible_name
from codebuddy_mcp_tools.policy.outbound import OutboundRules, validate_outbound_url_async
from codebuddy_mcp_tools.policy.permissions import Decision, PermissionPolicy
from codebuddy_mcp_tools.policy.secrets import Redactor, SecretFilter, display_url, mask, protect_logs
from codebuddy_mcp_tools.policy.signals import find_injection_signals
from codebuddy_mcp_tools.policy.text import MAX_DESCRIPTION, Cleaned, clean, clean_description, clean_line

__all__ = [
    "MAX_DESCRIPTION",
    "Ambiguous",
    "Cleaned",
    "Decision",
    "NameTable",
    "NearMisses",
    "OutboundRules",
    "PermissionPolicy",
    "Redactor",
    "SecretFilter",
    "clean",
    "clean_description",
    "clean_line",
    "display_url",
    "effect_of",
    "envelope",
    "find_injection_signals",
    "fold",
    "mask",
    "may_replay",
    "may_run_concurrently",
    "protect_logs",
    "validate_outbound_url_async",
    "visible_name",
]
