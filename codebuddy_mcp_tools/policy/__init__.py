"""Pure decisions about names, permissions, trust and addresses; each rule is written once, here.

Policy: nothing in this room talks to a server or to a person. It keeps private files of its own (approvals, pins,
audit) and otherwise answers questions.
"""

from codebuddy_mcp_tools.policy.approvals import ServerApprovals, needs_approval, pending_message
from codebuddy_mcp_tools.policy.audit import AuditLog
from codebuddy_mcp_tools.policy.effects import effect_of, may_replay, may_run_concurrently
from codebuddy_mcp_tools.policy.envelope import defang, envelope
from codebuddy_mcp_tools.policy.exposure import ExposureRules, parse_modifiers
from codebuddy_mcp_tools.policy.names import Ambiguous, NameTable, NearMisses, fold, normal, visible_name
from codebuddy_mcp_tools.policy.outbound import OutboundRules, split_user_info, validate_outbound_url_async
from codebuddy_mcp_tools.policy.permissions import Decision, PermissionPolicy
from codebuddy_mcp_tools.policy.pins import PinChange, PinReport, ToolPins
from codebuddy_mcp_tools.policy.request import ApprovalRequest
from codebuddy_mcp_tools.policy.rules import several
from codebuddy_mcp_tools.policy.secrets import Redactor, SecretFilter, display_url, mask, watch_logs
from codebuddy_mcp_tools.policy.shadowing import report_shadowing, words_of
from codebuddy_mcp_tools.policy.signals import find_injection_signals
from codebuddy_mcp_tools.policy.text import (
    MAX_DESCRIPTION,
    Cleaned,
    clean,
    clean_description,
    clean_line,
    command_argument,
    show,
)

__all__ = [
    "MAX_DESCRIPTION",
    "Ambiguous",
    "ApprovalRequest",
    "AuditLog",
    "Cleaned",
    "Decision",
    "ExposureRules",
    "NameTable",
    "NearMisses",
    "OutboundRules",
    "PermissionPolicy",
    "PinChange",
    "PinReport",
    "Redactor",
    "SecretFilter",
    "ServerApprovals",
    "ToolPins",
    "clean",
    "clean_description",
    "clean_line",
    "command_argument",
    "defang",
    "display_url",
    "effect_of",
    "envelope",
    "find_injection_signals",
    "fold",
    "mask",
    "may_replay",
    "may_run_concurrently",
    "needs_approval",
    "normal",
    "parse_modifiers",
    "pending_message",
    "report_shadowing",
    "several",
    "show",
    "split_user_info",
    "validate_outbound_url_async",
    "visible_name",
    "watch_logs",
    "words_of",
]
