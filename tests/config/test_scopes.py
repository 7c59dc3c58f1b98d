"""Which servers there are and which entry of a name counts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.config import (
    HttpServer,
    Places,
    Settings,
    StdioServer,
    choose,
    compare,
    fold_name,
    load_configuration,
    set_value,
)
from codebuddy_mcp_tools.config.entries import EntryCollector, ServerEntry
from codebuddy_mcp_tools.errors import ConfigError, UnknownServerError
from codebuddy_mcp_tools.types import Scope


class Files:
    """A home folder and a workspace in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.ws = root / "ws"
        self.home.mkdir()
        self.ws.mkdir()

    def write(self, path: str, value) -> Path:
        where = (self.home if path.startswith("~") else self.ws) / path.removeprefix("~/")
        where.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, bytes):
            where.write_bytes(value)
        else:
            where.write_text(value if isinstance(value, str) else json.dumps(value))
        return where

    def servers(self, path: str, **commands: str) -> Path:
        return self.write(path, {"mcpServers": {name: {"command": command} for name, command in commands.items()}})

    def load(self, servers=None, **more):
        more.setdefault("environ", {})
        return load_configuration(servers, workspace=self.ws, home=self.home, **more)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def commands(configuration):
    return {name: entry.config.command for name, entry in configuration.entries.items() if entry.config}


@pytest.mark.parametrize(
    ("present", "read"),
    [
        (["~/.codebuddy/.mcp.json", "~/.codebuddy/mcp.json", "~/.codebuddy.json"], "~/.codebuddy/.mcp.json"),
        (["~/.codebuddy/mcp.json", "~/.codebuddy.json"], "~/.codebuddy/mcp.json"),
        (["~/.codebuddy.json"], "~/.codebuddy.json"),
        ([".mcp.json", "mcp.json"], ".mcp.json"),
        (["mcp.json"], "mcp.json"),
    ],
)
def test_only_the_first_existing_file_of_a_scope_is_read(files, present, read):
    for number, path in enumerate(present):
        files.servers(path, **{f"s{number}": path})
    assert commands(files.load()) == {"s0": read}


def test_settings_that_are_a_plain_mapping_are_refused_with_what_makes_settings_of_them():
    with pytest.raises(ConfigError, match="model_validate"):
        load_configuration({}, settings={"toolExposure": "stub"})


def test_code_goes_before_local_before_editor_before_project_before_user(files):
    files.servers("~/.codebuddy/.mcp.json", a="user", b="user", c="user", d="user", e="user")
    files.servers(".mcp.json", a="project", b="project", c="project", d="project")
    editor = {"command": "editor", "transport": "stdio"}
    files.write(".vscode/settings.json", {"codebuddy.mcp.servers": {"a": editor, "b": editor, "c": editor}})
    local = {"mcpServers": {"a": {"command": "local"}, "b": {"command": "local"}}}
    files.write("~/.codebuddy.json", {"projects": {str(files.ws): local}})
    found = files.load({"a": StdioServer(command="code")})
    assert commands(found) == {"a": "code", "b": "local", "c": "editor", "d": "project", "e": "user"}
    assert [entry.scope for entry in found.candidates["a"]] == list(Scope)
    assert [entry.scope for entry in found.shadowed["d"]] == [Scope.USER]
    assert "e" not in found.shadowed


def test_a_whole_entry_replaces_another_without_merging_fields(files):
    files.write("~/.codebuddy/.mcp.json", {"mcpServers": {"a": {"command": "x", "env": {"K": "v"}, "timeout": 5000}}})
    files.servers(".mcp.json", a="y")
    config = files.load().entries["a"].config
    assert (config.command, config.env, config.timeout) == ("y", {}, None)


def test_the_local_scope_is_found_under_the_escaped_path_of_the_workspace(files):
    files.write(
        "~/.codebuddy.json",
        {
            "projects": {
                "/other": {"mcpServers": {"x": {"command": "x"}}},
                str(files.ws) + "/": {"mcpServers": {"a": {"command": "a"}}},
            }
        },
    )
    found = files.load()
    assert commands(found) == {"a": "a"}
    escaped = (str(files.ws) + "/").replace("/", "~1")
    assert found.entries["a"].pointer == f"/projects/{escaped}/mcpServers/a"


def test_a_local_entry_counts_whichever_user_file_is_the_first(files):
    local = {"projects": {str(files.ws): {"mcpServers": {"a": {"command": "legacy"}, "b": {"command": "legacy"}}}}}
    files.write("~/.codebuddy.json", {"mcpServers": {"u": {"command": "unread"}}, **local})
    files.write(
        "~/.codebuddy/.mcp.json",
        {"projects": {str(files.ws): {"mcpServers": {"b": {"command": "x"}, "c": {"command": "c"}}}}},
    )
    assert commands(files.load()) == {"a": "legacy", "b": "legacy", "c": "c"}


def test_a_workspace_reached_through_a_link_has_the_entries_of_its_real_path(files, tmp_path):
    files.write(
        "~/.codebuddy.json", {"projects": {os.path.realpath(files.ws): {"mcpServers": {"a": {"command": "a"}}}}}
    )
    (tmp_path / "link").symlink_to(files.ws)
    found = load_configuration(workspace=tmp_path / "link", home=files.home, environ={})
    assert commands(found) == {"a": "a"}


def test_editor_settings_of_workspace_and_user_are_read_with_both_keys(files):
    files.write(
        ".vscode/settings.json",
        '{//\n "sidecar.mcpServers": {"a": {"command": "a"}},\n "codebuddy.mcp.servers": {"b": {"url": "http://h"}}, }',
    )
    files.write(
        "~/.config/Code/User/settings.json", {"sidecar.mcpServers": {"c": {"command": "c"}, "a": {"command": "no"}}}
    )
    found = files.load()
    assert {name: (entry.scope, entry.is_project_owned) for name, entry in found.entries.items()} == {
        "b": (Scope.WORKSPACE, True),
        "a": (Scope.WORKSPACE, True),
        "c": (Scope.USER, False),
    }


def test_an_unapproved_project_entry_does_not_shadow_one_of_another_scope(files):
    files.servers("~/.codebuddy/.mcp.json", a="user")
    files.servers(".mcp.json", a="project", b="project")
    assert commands(files.load(approved=lambda entry: False)) == {"a": "user", "b": "project"}
    assert commands(files.load(approved=lambda entry: True)) == {"a": "project", "b": "project"}


@pytest.mark.case("B58")
@pytest.mark.parametrize(
    ("content", "line"),
    [(b"", 1), (b"// c", 1), (b"null", 1), (b"[]", 1), (b'{"mcpServers": null}', 1), (b'{\n"mcpServers": [1]}', 2),
     (b'{\n"mcpServers": {,}}', 2), (b"\xff", 1), (b'{"a": 1,\n "a": 2}', 2)],
)  # fmt: skip
def test_a_broken_file_is_one_diagnostic_and_hides_nothing_else(files, content, line):
    broken = files.write("~/.codebuddy/.mcp.json", content)
    files.servers(".mcp.json", a="a")
    found = files.load()
    assert commands(found) == {"a": "a"}
    [diagnostic] = found.diagnostics
    assert (diagnostic.path, diagnostic.line) == (broken, line)
    assert diagnostic.column is not None
    assert str(diagnostic).startswith(f"{broken}:{line}:")
    assert broken.read_bytes() == content


@pytest.mark.case("B58")
def test_one_bad_server_does_not_hide_the_good_one_and_is_shown(files):
    path = files.write(
        ".mcp.json", '{"mcpServers": {\n "_comment": "mine",\n "bad": {"command": 5},\n "good": {"command": "g"}}}'
    )
    found = files.load()
    assert list(found.entries) == ["bad", "good"]
    assert found.entries["bad"].config is None
    assert '"bad"' in found.entries["bad"].error
    [diagnostic] = found.diagnostics
    assert (diagnostic.path, diagnostic.line, diagnostic.server) == (path, 3, "bad")


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe and a folder in the way")
def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_a_diagnostic(files):
    (files.ws / ".mcp.json").mkdir()
    (files.home / ".codebuddy").mkdir()
    os.mkfifo(files.home / ".codebuddy" / ".mcp.json")
    found = files.load()
    assert len(found.diagnostics) == 2
    assert found.entries == {}


@pytest.mark.case("B51")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_does_not_matter(files, encoding):
    files.write(".mcp.json", '{"mcpServers": {"s": {"command": "x"}}}'.encode(encoding))
    assert commands(files.load()) == {"s": "x"}


@pytest.mark.case("B56")
def test_the_key_of_vs_code_is_read_with_a_note(files):
    files.write(
        ".mcp.json", {"servers": {"s": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}, "inputs": [{"id": "x"}]}
    )
    found = files.load()
    assert isinstance(found.entries["s"].config, HttpServer)
    messages = [diagnostic.message for diagnostic in found.diagnostics]
    assert messages[0].startswith('found "servers", expected "mcpServers"')
    assert '"inputs" is not supported' in messages[1]


@pytest.mark.case("B56")
def test_a_bare_map_of_servers_is_read_with_a_warning_that_names_the_expected_key(files):
    files.write(".mcp.json", {"s": {"command": "x"}, "other": {"a": 1}, "version": 2})
    found = files.load()
    assert commands(found) == {"s": "x"}
    [diagnostic] = found.diagnostics
    assert (diagnostic.severity, '"mcpServers"' in diagnostic.message) == ("warning", True)


def test_a_file_of_another_purpose_without_servers_says_nothing(files):
    files.write("~/.codebuddy.json", {"projects": {"/x": {"history": []}}, "numStartups": 5})
    assert files.load().diagnostics == ()


def test_vs_codes_own_file_is_pointed_out(files):
    files.write(".vscode/mcp.json", {"servers": {}})
    assert "not read" in files.load().diagnostics[0].message


def test_names_that_are_one_name_to_the_rules_are_a_warning(files):
    files.servers(".mcp.json", **{"web-search": "a", "web.search": "b", "Other": "c"})
    [diagnostic] = files.load().diagnostics
    assert diagnostic.severity == "warning"
    assert '"web-search", "web.search"' in diagnostic.message


@pytest.mark.case("B10")
def test_a_server_is_found_by_every_spelling_of_its_name(files):
    files.servers(".mcp.json", **{"Google Sheets.v2": "x", "a-b": "1", "a.b": "2"})
    found = files.load()
    for spelling in ("Google Sheets.v2", "google_sheets_v2", "Google-Sheets-v2"):
        assert found.entry(spelling).name == "Google Sheets.v2"
    with pytest.raises(UnknownServerError, match="ambiguous"):
        found.entry("a_b")
    with pytest.raises(UnknownServerError, match=r"configured servers: Google Sheets\.v2") as caught:
        found.entry("nope")
    assert caught.value.server == "nope"


def test_the_users_list_of_disabled_servers_counts_everywhere_and_a_projects_for_the_project(files):
    files.write("~/.codebuddy/.mcp.json", {"mcpServers": {"u": {"command": "u"}}, "disabledMcpServers": ["p1"]})
    files.write(
        ".mcp.json",
        {
            "mcpServers": {"p1": {"command": "p"}, "p2": {"command": "p"}},
            "disabledMcpServers": ["u", "p2"],
        },
    )
    found = files.load()
    assert found.settings.disabled_mcp_servers == ("p1",)
    assert {name: entry.config.enabled for name, entry in found.entries.items()} == {"p1": True, "p2": False, "u": True}


def test_without_a_workspace_no_file_is_looked_at(files, monkeypatch):
    monkeypatch.setenv("HOME", str(files.home))
    files.servers("~/.codebuddy/.mcp.json", u="u")
    files.write("~/.codebuddy/settings.json", {"permissionMode": "strict"})
    found = load_configuration({"a": {"command": "x"}}, environ={"MCP_TIMEOUT": "5000"})
    assert (list(found.entries), found.files, found.workspace) == (["a"], (), None)
    assert (found.settings.permission_mode, found.settings.start_timeout_s) == ("autonomous", 5.0)


def test_settings_given_in_code_replace_the_files(files):
    files.write("~/.codebuddy/settings.json", {"permissionMode": "strict"})
    assert files.load(settings=Settings(audit=False)).settings == Settings(audit=False)
    assert files.load(settings_source='{"permissionMode": "manual"}').settings.permission_mode == "manual"


@pytest.mark.case("B60")
def test_printing_a_configuration_shows_no_secret(files):
    files.write(
        ".mcp.json",
        {"mcpServers": {"s": {"command": "x", "env": {"TOKEN": "ENVSEC"}}, "bad": {"env": {"T": "ENVSEC"}}}},
    )
    found = files.load()
    assert "ENVSEC" not in repr(found)
    assert "ENVSEC" not in str(found.diagnostics)
    assert "TOKEN" in repr(found.entries["s"])


def test_every_file_that_could_matter_is_listed_for_watching(files):
    names = {str(path.relative_to(files.home.parent)) for path in files.load().files}
    assert {"home/.codebuddy/.mcp.json",
            "home/.codebuddy.json", "ws/.mcp.json", "ws/mcp.json", "ws/.vscode/settings.json",
            "ws/.codebuddy/settings.local.json", "home/.codebuddy/settings.json"} <= names  # fmt: skip


def test_only_servers_whose_entry_changed_are_named_by_a_comparison(files):
    path = files.servers(".mcp.json", a="1", b="1", c="1")
    old = files.load()
    path.write_text("// moved\n\n" + path.read_text())
    assert not compare(old, files.load())
    set_value(path, ("mcpServers", "b", "command"), "2", lock_dir=files.home)
    set_value(path, ("mcpServers", "d"), {"command": "1"}, lock_dir=files.home)
    files.servers("~/.codebuddy/.mcp.json", a="shadowed")
    text = path.read_text().replace('"c"', '"e"')
    path.write_text(text)
    changes = compare(old, files.load())
    assert (changes.added, changes.removed, changes.changed) == (("e", "d"), ("c",), ("b",))


def test_a_thousand_bad_entries_are_read_in_a_reasonable_number_of_steps(files):
    files.write(".mcp.json", {"mcpServers": {f"s{i}": {"command": i} for i in range(3000)}})
    assert len(files.load().diagnostics) == 3000


def entry(name: str, scope: Scope) -> ServerEntry:
    return ServerEntry(name, scope, StdioServer(command=scope.value), {"command": scope.value})


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(Scope)), max_size=12), st.sets(st.sampled_from("abc"))
)
def test_the_merge_keeps_every_entry_and_orders_by_scope_alone(written, approved):
    collector = EntryCollector(None)
    collector._entries = [entry(name, scope) for name, scope in written]
    candidates = collector.candidates()
    assert sorted((e.name, e.scope) for found in candidates.values() for e in found) == sorted(written)
    order = list(Scope)
    for name, found in candidates.items():
        places = [order.index(e.scope) for e in found]
        assert places == sorted(places)
        winner = choose(found, lambda e: e.name in approved)
        assert choose(found) is found[0]
        if name in approved:
            assert winner is found[0]
        elif winner.is_project_owned:
            assert all(e.is_project_owned for e in found)


@given(st.text(max_size=20))
def test_folding_a_name_twice_is_folding_it_once(name):
    assert fold_name(fold_name(name)) == fold_name(name)


def test_places_follow_the_home_folder_that_is_given(tmp_path):
    places = Places.of("~/x", home=tmp_path, environ={"XDG_CONFIG_HOME": "/elsewhere"})
    assert places.user[0] == tmp_path / ".codebuddy" / ".mcp.json"
    assert str(places.user_editor).startswith(str(tmp_path))


def test_the_content_of_a_whole_file_may_be_given_in_code(files):
    assert commands(files.load({"mcpServers": {"a": {"command": "x"}}})) == {"a": "x"}
    named_so = files.load({"mcpServers": {"command": "x"}})
    assert commands(named_so) == {"mcpServers": "x"}


@pytest.mark.parametrize(
    ("given", "said"),
    [("./.mcp.json", "workspace=FOLDER"), (["a"], "not list"), ({1: {"command": "x"}}, "must be text, not int")],
)
def test_servers_in_code_that_are_no_mapping_of_names_are_refused_in_one_line(files, given, said):
    with pytest.raises(ConfigError) as raised:
        files.load(given)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_workspace_that_does_not_exist_is_a_diagnostic(tmp_path):
    found = load_configuration(workspace=tmp_path / "missing", home=tmp_path, environ={})
    [diagnostic] = found.diagnostics
    assert (diagnostic.severity, diagnostic.path) == ("error", tmp_path / "missing")
