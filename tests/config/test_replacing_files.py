"""Replacing files: whole or not at all, links and permissions kept, nothing left behind."""

from __future__ import annotations

import os
import threading

import pytest

from mxcore._files import replacing


def test_text_and_bytes(tmp_path):
    with replacing(tmp_path / "a", text=True) as stream:
        stream.write("grün")
    with replacing(str(tmp_path / "b")) as stream:
        stream.write(b"\x00\n")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "grün"
    assert (tmp_path / "b").read_bytes() == b"\x00\n"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(error), replacing(path, text=True) as stream:
        stream.write("half")
        assert path.read_text() == "old"
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_a_disk_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"), replacing(path, text=True) as stream:
        stream.write("new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_the_content_is_on_disk_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("replace"), replace(old, new)))
    with replacing(tmp_path / "a") as stream:
        stream.write(b"x")
    assert done == (["sync", "replace", "sync"] if os.name == "posix" else ["sync", "replace"])


@pytest.mark.skipif(os.name != "posix", reason="links and modes of POSIX")
def test_links_are_followed_and_modes_kept(tmp_path):
    target = tmp_path / "target"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    with replacing(tmp_path / "link", text=True) as stream:
        stream.write("new")
    assert (tmp_path / "link").is_symlink() and target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    with replacing(path) as stream:
        stream.write(b"through")
    reader.join(10)
    assert got == [b"through"] and os.listdir(tmp_path) == ["pipe"]


def test_no_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "none" / "a"):
        pass
