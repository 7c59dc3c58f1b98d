"""Settings: layers, who may say what, and what is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.config import Settings, load_settings
from codebuddy_mcp_tools.config.layer_values import Layer
from codebuddy_mcp_tools.config.layers import _combined


@pytest.fixture
def user(tmp_path):
    return tmp_path / "home" / ".codebuddy" / "settings.json"


@pytest.fixture
def project(tmp_path):
    return tmp_path / "ws" / ".codebuddy" / "settings.json"


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.fixture
def load(tmp_path):
    (tmp_path / "ws").mkdir(exist_ok=True)

    def loaded(**more):
        more.setdefault("environ", {})
        return load_settings(tmp_path / "ws", home=tmp_path / "home", **more)

    return loaded


def messages(settings):
    return [str(diagnostic) for diagnostic in settings.diagnostics]


def test_without_files_everything_has_its_default_and_nothing_is_said(load):
    assert load() == Settings()
    assert messages(load()) == []


def test_the_argument_goes_before_the_project_and_the_project_before_the_user(load, user, project):
    write(user, {"toolExposure": "full", "breakerThreshold": 7, "maxConcurrency": 2, "callStyle": "execute"})
    write(project, {"toolExposure": "stub", "breakerThreshold": 8, "maxConcurrency": 3})
    write(project.with_name("settings.local.json"), {"toolExposure": "deferred", "breakerThreshold": 9})
    settings = load(source='{"toolExposure": "auto"}')
    assert (settings.tool_exposure, settings.breaker_threshold) == ("auto", 9)
    assert (settings.max_concurrency, settings.call_style) == (3, "execute")
    assert settings.origins["tool_exposure"] == "--settings"
    assert settings.origins["breaker_threshold"].endswith("settings.local.json")
    assert settings.origins["call_style"] == str(user)
    assert "audit" not in settings.origins


def test_rules_of_all_layers_are_united(load, user, project):
    write(user, {"permissions": {"allow": ["mcp__a"], "deny": ["mcp__b"]}, "disabledMcpServers": ["x"]})
    write(project, {"permissions": {"ask": ["mcp__c"], "deny": ["mcp__d"]}, "disabledMcpServers": ["y"]})
    settings = load(source={"permissions": {"allow": ["mcp__e"]}})
    assert settings.permissions.allow == ("mcp__e", "mcp__a")
    assert (settings.permissions.ask, settings.permissions.deny) == (("mcp__c",), ("mcp__d", "mcp__b"))
    assert set(settings.disabled_mcp_servers) == {"x", "y"}


@pytest.mark.case("B67")
@pytest.mark.parametrize("file", ["settings.json", "settings.local.json"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enableAllProjectMcpServers", True),
        ("enabledMcpjsonServers", ["a"]),
        ("disabledMcpjsonServers", ["a"]),
        ("permissions", {"allow": ["mcp__a"]}),
        ("toolPermissions", {"mcp_a_b": "allow"}),
        ("permissionMode", "autonomous"),
        ("allowedHosts", ["10.0.0.1"]),
        ("trustEnv", True),
        ("audit", False),
        ("stdioAlways", False),
        ("pinPolicy", "warn"),
    ],
)
def test_a_projects_file_cannot_open_anything(load, project, user, file, key, value):
    write(user, {"permissionMode": "cautious", "stdioAlways": True, "pinPolicy": "block"})
    before = load()
    write(project.with_name(file), {key: value})
    after = load()
    assert after.model_dump() == before.model_dump()
    [diagnostic] = after.diagnostics
    assert diagnostic.severity == "warning"
    assert f'"{key}' in diagnostic.message or '"allow"' in diagnostic.message
    assert (diagnostic.path, diagnostic.line) == (project.with_name(file), 1)


def test_a_projects_file_can_make_everything_stricter(load, project, user):
    write(user, {"permissionMode": "cautious", "toolPermissions": {"a": "allow", "b": "deny", "c": "ask"}})
    write(
        project,
        {
            "permissionMode": "strict",
            "pinPolicy": "block",
            "stdioAlways": True,
            "toolPermissions": {"a": "ask", "b": "ask", "c": "deny", "d": "deny"},
        },
    )
    settings = load()
    assert (settings.permission_mode, settings.pin_policy, settings.stdio_always) == ("strict", "block", True)
    assert settings.tool_permissions == {"a": "ask", "b": "deny", "c": "deny", "d": "deny"}
    assert messages(settings) == []


def test_a_projects_file_cannot_lower_a_mode_by_naming_a_milder_one(load, project, user):
    write(user, {"permissionMode": "strict"})
    write(project, {"permissionMode": "cautious"})
    assert load().permission_mode == "strict"
    assert load(source='{"permissionMode": "autonomous"}').permission_mode == "cautious"


def test_editor_settings_are_read_for_tool_permissions_and_the_gate(load, tmp_path):
    write(
        tmp_path / "home/.config/Code/User/settings.json",
        '{\n  // mine\n  "sidecar.toolPermissions": {"mcp_a_b": "allow"},\n  "editor.fontSize": 12,\n}',
    )
    write(
        tmp_path / "ws/.vscode/settings.json",
        {"sidecar.completionGate.enabled": False, "sidecar.toolPermissions": {"mcp_a_c": "ask"}},
    )
    settings = load()
    assert settings.completion_gate_enabled is False
    assert settings.tool_permissions == {"mcp_a_b": "allow", "mcp_a_c": "ask"}


@pytest.mark.parametrize(
    "value",
    [{"completionGate": {"enabled": False}}, {"completionGate.enabled": False}, {"completionGateEnabled": False}],
)
def test_the_completion_gate_has_three_spellings(load, user, value):
    write(user, value)
    assert load().completion_gate_enabled is False


def test_environment_variables_of_the_pages_are_read(load, user):
    write(user, {"startTimeoutMs": 5})
    settings = load(
        environ={
            "MAX_MCP_OUTPUT_TOKENS": "25000",
            "MCP_TIMEOUT": "10000",
            "MCP_TOOL_TIMEOUT": "1500",
            "CODEBUDDY_DISABLE_MCP_LARGE_OUTPUT_FILES": "1",
        }
    )
    assert (settings.max_output_tokens, settings.start_timeout_s, settings.tool_timeout_s) == (25000, 10.0, 1.5)
    assert settings.large_output_files is False
    assert settings.origins["start_timeout_ms"] == "environment variable MCP_TIMEOUT"


@pytest.mark.parametrize("text", ["abc", "-5", "0", "nan", "1e99", "inf"])
def test_an_environment_variable_that_is_no_number_is_ignored_with_a_warning(load, text):
    settings = load(environ={"MCP_TIMEOUT": text})
    assert settings.start_timeout_ms == 30_000
    assert "MCP_TIMEOUT" in messages(settings)[0]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "",
        "[]",
        '{"a": 1, "a": 2}',
        '{"permissions": {"deny": 5}}',
        '{"permissions": 5}',
        '{"toolPermissions": ["x"]}',
        '{"permissionMode": "none"}',
    ],
)
@pytest.mark.parametrize("name", ["user", "project"])
def test_settings_that_cannot_be_read_make_tools_ask_instead_of_run(load, request, name, content):
    write(request.getfixturevalue(name), content)
    settings = load()
    assert settings.permission_mode == "manual"
    assert settings.diagnostics[0].severity == "error"
    assert settings.diagnostics[0].path == request.getfixturevalue(name)
    assert settings.diagnostics[0].line is not None


def test_one_bad_value_does_not_hide_the_others(load, user):
    write(
        user,
        {
            "breakerThreshold": "many",
            "trustEnv": "yes",
            "permissions": {"deny": ["mcp__a", 5]},
            "toolPermissions": {"a": "never", "b": "deny"},
            "enableAllProjectMcpServer": True,
            "toolCacheTtlS": 60,
        },
    )
    settings = load()
    assert settings.permissions.deny == ("mcp__a",)
    assert settings.tool_permissions == {"a": "ask", "b": "deny"}
    assert (settings.tool_cache_ttl_s, settings.breaker_threshold, settings.trust_env) == (60, 3, False)
    text = "\n".join(messages(settings))
    for part in ("breakerThreshold", "trustEnv", "permissions.deny", 'did you mean "enableAllProjectMcpServers"'):
        assert part in text


def test_keys_of_the_host_that_are_not_ours_are_left_alone(load, user):
    write(user, {"model": "x", "hooks": {}, "env": {"A": "1"}, "theme": "dark", "cleanupPeriodDays": 30})
    assert messages(load()) == []


@pytest.mark.parametrize("source", ["{broken", "no-such-file.json", "[]"])
def test_a_bad_settings_argument_is_a_diagnostic(load, source):
    settings = load(source=source)
    assert settings.diagnostics[0].severity == "error"
    assert settings.permission_mode == "manual"


def test_the_settings_argument_may_be_a_file(load, tmp_path):
    write(tmp_path / "s.json", "// mine\n{'enableAllProjectMcpServers': true}")
    assert load(source=str(tmp_path / "s.json")).enable_all_project_mcp_servers
    assert load(source=tmp_path / "s.json").enable_all_project_mcp_servers


def test_the_home_folder_as_workspace_does_not_make_the_users_settings_a_projects(tmp_path):
    write(tmp_path / ".codebuddy/settings.json", {"enableAllProjectMcpServers": True})
    settings = load_settings(tmp_path, home=tmp_path, environ={})
    assert settings.enable_all_project_mcp_servers
    assert settings.diagnostics == ()


def test_settings_in_code_take_both_spellings_and_refuse_what_they_do_not_know():
    assert Settings(permissionMode="strict") == Settings(permission_mode="strict")
    with pytest.raises(ValueError, match="extra"):
        Settings(permisionMode="strict")


modes = st.sampled_from(["autonomous", "cautious", "manual", "strict"])
rules = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["allow", "ask", "deny"]), max_size=3)
layers = st.fixed_dictionaries(
    {}, optional={"permission_mode": modes, "tool_permissions": rules, "audit": st.booleans()}
)


@given(layers, layers, layers)
def test_adding_a_projects_layer_never_loosens_anything(explicit, project, user):
    def layer(values):
        return Layer(dict(values), dict.fromkeys(values, "x"))

    project = {
        **project,
        "tool_permissions": {k: v for k, v in project.get("tool_permissions", {}).items() if v != "allow"},
    }
    project = {k: v for k, v in project.items() if (k, v) != ("audit", False)}
    without = _combined([layer(explicit)], [], [layer(user)])
    joined = _combined([layer(explicit)], [layer(project)], [layer(user)])
    order = ["autonomous", "cautious", "manual", "strict"]
    assert order.index(joined.permission_mode) >= order.index(without.permission_mode)
    assert joined.audit >= without.audit
    strictness = ["allow", "ask", "deny"]
    for tool, rule in without.tool_permissions.items():
        assert strictness.index(joined.tool_permissions[tool]) >= strictness.index(rule)
