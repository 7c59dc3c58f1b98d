"""Changing one entry of a file without touching the rest."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from codebuddy_mcp_tools.config import edit, parse, remove_value, set_value
from codebuddy_mcp_tools.errors import ConfigError, ConfigSyntaxError

ENTRY = {"command": "x", "args": ["-y"], "env": {"K": "v"}}
COMMENTED = """\
{
  // top
  "$schema": "https://x/y.json", /* inline */
  "mcpServers": {
    // about a
    "a": { "command": "a" }, // after a
    "b": {
      "command": "b", // why
    } // after b
    /* "old": { "command": "c" } */
  },
  "projects": {"/ws": {"mcpServers": {}}},
  "x-team": [1, 2,   3],
}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "conf" / ".mcp.json"


def write(path: Path, text: str | bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path.read_bytes()


@pytest.mark.case("B53")
def test_adding_and_removing_a_server_gives_the_file_back_byte_for_byte(file):
    before = write(file, COMMENTED)
    assert set_value(file, ("mcpServers", "new"), ENTRY)
    added = file.read_text()
    assert parse(added)["mcpServers"]["new"] == ENTRY
    assert added.replace("}, // after b", "} // after b").startswith(COMMENTED[: COMMENTED.index("after b")])
    assert added.endswith(COMMENTED[COMMENTED.index("    /* ") :])
    assert remove_value(file, ("mcpServers", "new"))
    assert file.read_bytes() == before


@pytest.mark.case("B53")
def test_a_new_entry_stands_after_the_last_one_in_the_indentation_of_the_file(file):
    write(file, COMMENTED)
    set_value(file, ("mcpServers", "n"), {"command": "x"})
    assert '    }, // after b\n    "n": {\n      "command": "x"\n    }\n    /* "old"' in file.read_text()


@pytest.mark.case("B53")
def test_removing_keeps_comments_and_every_other_byte(file):
    write(file, COMMENTED)
    remove_value(file, ("mcpServers", "a"))
    assert file.read_text() == COMMENTED.replace('"a": { "command": "a" }, // after a', "// after a")
    write(file, COMMENTED)
    remove_value(file, ("mcpServers", "b"))
    expected = COMMENTED.replace('"a" }, // after a', '"a" } // after a')
    expected = expected.replace('"b": {\n      "command": "b", // why\n    } // after b', "// after b")
    assert file.read_text() == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"mcpServers":{"a":{"command":"a"}}}', '{"mcpServers":{"a":{"command":"a"}, "n": 1}}'),
        ('{"mcpServers": {"a": 1,}}', '{"mcpServers": {"a": 1, "n": 1,}}'),
        ('{"mcpServers": {}}', '{"mcpServers": {\n  "n": 1\n}}'),
        ('{\n\t"mcpServers": {\n\t}\n}', '{\n\t"mcpServers": {\n\t\t"n": 1\n\t}\n}'),
        ("{}", '{\n  "mcpServers": {\n    "n": 1\n  }\n}'),
        ('{\r\n    "mcpServers": {\r\n        "a": 1\r\n    }\r\n}\r\n',
         '{\r\n    "mcpServers": {\r\n        "a": 1,\r\n        "n": 1\r\n    }\r\n}\r\n'),
        ('{\n  "mcpServers": null\n}', '{\n  "mcpServers": {\n    "n": 1\n  }\n}'),
        ('{\n  "mcpServers": {\n    "n": 0 // keep\n  }\n}', '{\n  "mcpServers": {\n    "n": 1 // keep\n  }\n}'),
        ("", '{\n  "mcpServers": {\n    "n": 1\n  }\n}\n'),
        ("// mine\n", '// mine\n{\n  "mcpServers": {\n    "n": 1\n  }\n}\n'),
        ("{mcpServers: {'a': 1}}", "{mcpServers: {'a': 1, \"n\": 1}}"),
        ('{"mcpServers": {"a": 1 /* } */}}', '{"mcpServers": {"a": 1, "n": 1 /* } */}}'),
        ('{\n "mcpServers": { // c }\n }\n}', '{\n "mcpServers": { // c }\n  "n": 1\n }\n}'),
    ],
)  # fmt: skip
def test_an_entry_is_written_in_the_style_that_is_there(file, before, after):
    write(file, before)
    set_value(file, ("mcpServers", "n"), 1)
    assert file.read_bytes().decode() == after


def test_a_missing_file_is_created_for_the_user_alone(file):
    assert set_value(file, ("mcpServers", "ünï"), {"command": "名前"})
    assert file.read_text() == '{\n  "mcpServers": {\n    "ünï": {\n      "command": "名前"\n    }\n  }\n}\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_mode_of_a_file_is_kept_and_a_link_stays_a_link(file, tmp_path):
    real = tmp_path / "dotfiles" / "mcp.json"
    write(real, "{}")
    real.chmod(0o640)
    file.parent.mkdir()
    file.symlink_to(real)
    set_value(file, ("mcpServers", "n"), ENTRY)
    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert json.loads(real.read_text())["mcpServers"]["n"] == ENTRY


@pytest.mark.case("B51")
@pytest.mark.parametrize(
    ("bom", "encoding"), [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
)
def test_the_encoding_and_its_mark_are_kept(file, bom, encoding):
    before = write(file, bom + COMMENTED.encode(encoding))
    set_value(file, ("mcpServers", "n"), {"command": "名"})
    assert file.read_bytes().startswith(bom)
    assert parse(file.read_bytes())["mcpServers"]["n"] == {"command": "名"}
    remove_value(file, ("mcpServers", "n"))
    assert file.read_bytes() == before


@pytest.mark.case("B51")
@pytest.mark.parametrize(
    "content",
    [b'{"mcpServers": {', b"\xff\xfe\x00", b'{"a": 1, "a": 2}', b"[]", b"null", b'{"mcpServers": []}', b"[" * 5000],
)
def test_a_file_that_could_not_be_read_is_never_rewritten(file, content):
    write(file, content)
    with pytest.raises(ConfigError):
        set_value(file, ("mcpServers", "n"), ENTRY)
    if b"Servers" not in content:
        with pytest.raises(ConfigError):
            remove_value(file, ("mcpServers", "n"))
    assert file.read_bytes() == content
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_syntax_error_in_the_way_tells_its_place(file):
    write(file, '{\n "mcpServers": {,}\n}')
    with pytest.raises(ConfigSyntaxError) as caught:
        set_value(file, ("mcpServers", "n"), ENTRY)
    assert (caught.value.line, caught.value.path) == (2, file)


def test_writing_what_is_there_already_or_removing_what_is_not_touches_nothing(file):
    write(file, '{"mcpServers": {"n": {"command": "x"}}}')
    before = file.stat()
    assert not set_value(file, ("mcpServers", "n"), {"command": "x"})
    assert not remove_value(file, ("mcpServers", "other"))
    assert not remove_value(file, ("nothing", "other"))
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert not remove_value(file.with_name("absent.json"), ("a",))
    assert not file.with_name("absent.json").exists()


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_a_value_that_is_no_json_is_refused(file, value):
    with pytest.raises(ConfigError):
        set_value(file, ("mcpServers", "n"), {"a": value})
    assert not file.exists()


def test_a_change_made_by_another_program_meanwhile_is_not_lost(file, monkeypatch):
    write(file, '{"mcpServers": {}}')
    original, calls = edit.put_text, []

    def interrupted(text, tokens, value):
        if not calls:
            write(file, '{"mcpServers": {"theirs": {"command": "t"}}}')
        calls.append(1)
        return original(text, tokens, value)

    monkeypatch.setattr(edit, "put_text", interrupted)
    set_value(file, ("mcpServers", "mine"), ENTRY)
    assert set(parse(file.read_text())["mcpServers"]) == {"theirs", "mine"}
    assert len(calls) == 2


def test_many_writers_at_once_lose_nothing(file):
    writers = [
        threading.Thread(target=set_value, args=(file, ("mcpServers", f"s{i}"), {"command": str(i)})) for i in range(12)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(parse(file.read_text())["mcpServers"]) == 12
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_clear_error(file):
    write(file, "{}")
    file.parent.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="cannot be written"):
            set_value(file, ("a",), 1)
    finally:
        file.parent.chmod(0o700)
