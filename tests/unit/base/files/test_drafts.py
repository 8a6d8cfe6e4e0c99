"""New files: whole or not there, and never written through a link."""

from __future__ import annotations

import pytest

from tauslab.base.errors import InputFileError, OutputError
from tauslab.base.files import drafts
from tauslab.base.files.drafts import (
    create_new,
    draft_of,
    make_own_folder,
    remove_drafts,
    replacing,
    write_whole,
)


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("SECRET")
    return path


def test_a_draft_has_another_name_each_time(tmp_path):
    names = {draft_of(tmp_path / "a.h5").name for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("a.h5.") for name in names)


@pytest.mark.parametrize("dangling", [False, True])
def test_a_new_file_is_never_a_link_that_is_there(tmp_path, victim, dangling):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing" if dangling else victim)
    with pytest.raises(FileExistsError):
        create_new(link)
    assert victim.read_text() == "SECRET"
    assert not (tmp_path / "nothing").exists()


def test_a_planted_draft_is_refused(tmp_path, victim, monkeypatch):
    planted = tmp_path / "planted"
    planted.symlink_to(victim)
    monkeypatch.setattr(drafts, "draft_of", lambda path, suffix="": planted)
    with pytest.raises(OutputError):
        write_whole(tmp_path / "page.html", "text")
    assert victim.read_text() == "SECRET"


def test_a_link_is_replaced_and_not_written_through(tmp_path, victim):
    link = tmp_path / "page.html"
    link.symlink_to(victim)
    write_whole(link, "text")
    assert victim.read_text() == "SECRET"
    assert not link.is_symlink()
    assert link.read_text() == "text"


def test_a_failure_leaves_what_was_there_and_no_draft(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(OutputError), replacing(path) as draft:
        draft.with_name("missing").rename(draft)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("page.html", "old")]


def test_drafts_of_one_file_are_removed_alone(tmp_path):
    kept = [draft_of(tmp_path / "a.h5.append"), draft_of(tmp_path / "b.h5"), tmp_path / "a.h5"]
    for path in (*kept, draft_of(tmp_path / "a.h5")):
        create_new(path)
    remove_drafts(tmp_path, "a.h5")
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    remove_drafts(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.h5"]


def test_a_folder_of_ours_is_no_link(tmp_path):
    (tmp_path / "theirs").mkdir()
    link = tmp_path / "a.h5.parts"
    link.symlink_to(tmp_path / "theirs")
    with pytest.raises(InputFileError, match="parts"):
        make_own_folder(link)
