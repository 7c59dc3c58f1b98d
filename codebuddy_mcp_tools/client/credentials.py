"""What a connection shows a remote server: configured headers, or the stored login; and what to say about a 401."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from codebuddy_mcp_tools.client.token_store import TokenStore
from codebuddy_mcp_tools.client.transport import ConnectionSpec
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.policy.text import command_argument


def credentials(
    spec: ConnectionSpec, url: str, headers: Mapping[str, str], redactor: Redactor
) -> tuple[httpx.Auth | None, str]:
    """The stored login, if there is one and no header speaks for us; and the clause that explains a 401.

    The OAuth library is imported only for a stored login: it costs more than a connection.
    """
    if any(name.lower() == "authorization" for name in headers):
        return None, "the server does not accept the configured Authorization"
    command = f"`codebuddy-mcp login {command_argument(spec.name)}`"
    store = TokenStore(spec.tokens_dir, spec.name, url)
    if not store.exists():
        return None, f"it wants credentials: {command}, or a header in its entry"
    from codebuddy_mcp_tools.client.oauth import stored_auth  # noqa: PLC0415

    return stored_auth(spec, store, redactor), f"the stored login is not accepted any more: {command}"
