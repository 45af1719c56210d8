"""Why a folder's listing does not follow a link, and the command that makes what it leads to part of it."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from users import as_nobody_if_root

from engine.storage import manifest
from engine.storage.links import Why, remarks, why_unusable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "around" / "my scans"
    (root / "deep").mkdir(parents=True)
    for name, target in (
        ("a lost", "/mnt/disk/p"),
        ("deep/annexed.nii", "../../.git/annex/objects/Xx/Yy/SHA256E-s3--ab.nii/SHA256E-s3--ab.nii"),
        ("of_dvc", "/data/dvc/files/md5/ab/cdef"),
        ("of_dvc_too", "../.dvc/cache/ab/cdef"),
        ("loop", "loop"),
        ("up", ".."),
    ):
        (root / name).symlink_to(target)
    return root


def listed(folder: Path) -> manifest.LeftOut:
    out = manifest.LeftOut()
    manifest.list_folder(folder, ("**/*.npy",), left_out=out)
    return out


def test_each_reason_has_its_own_remark(folder: Path) -> None:
    found = listed(folder).links
    assert {name: link.why for name, link in found.items()} == {
        "a lost": Why.MISSING,
        "deep/annexed.nii": Why.ANNEX,
        "of_dvc": Why.DVC,
        "of_dvc_too": Why.DVC,
        "loop": Why.ITSELF,
        "up": Why.AROUND,
    }
    said = {message.partition(" left out: ")[2]: hint for message, hint in remarks(str(folder), found)}
    place = shlex.quote(str(folder))
    assert said == {
        "a lost (its target /mnt/disk/p is missing)": "What lay there is not read. Put it back, or mount its disk; "
        f"`rm {shlex.quote(str(folder / 'a lost'))}` ends this warning.",
        "deep/annexed.nii (git-annex has not fetched its content)": "Fetch the content: "
        f"`git -C {place} annex get deep/annexed.nii`.",
        "of_dvc (DVC has not fetched its content), of_dvc_too (DVC has not fetched its content)": "Fetch the content: "
        f"`dvc --cd {place} pull`.",
        "loop (it leads to itself)": "It has no content, so nothing is lost; "
        f"`rm {shlex.quote(str(folder / 'loop'))}` ends this warning.",
        "up (it leads to .., a folder around this one)": "Nothing of this folder is lost. To read what lies around it, "
        f"choose that folder; `rm {shlex.quote(str(folder / 'up'))}` ends this warning.",
    }


def test_the_command_that_ends_the_warning_does_so(folder: Path) -> None:
    for _, hint in remarks(str(folder), listed(folder).links):
        if "`rm " in hint:
            subprocess.run(hint.split("`")[1], shell=True, check=True)
    assert {link.why for link in listed(folder).links.values()} == {Why.ANNEX, Why.DVC}


def test_what_this_account_may_not_open_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked" / "inner").mkdir(parents=True)
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("../locked/inner")
    for folder in (tmp_path, root):
        folder.chmod(0o755)
    # By its name alone: the folders above may be closed to other accounts.
    monkeypatch.chdir(root)
    (tmp_path / "locked").chmod(0)
    try:
        with as_nobody_if_root():
            link = why_unusable("link")
    finally:
        (tmp_path / "locked").chmod(0o700)
    assert link is not None
    (remark,) = remarks(str(root), {"link": link})
    assert "link (this account may not open its target ../locked/inner)" in remark.message
    assert "Let this account open it" in remark.hint


def test_of_many_links_three_are_named(tmp_path: Path) -> None:
    for number in range(1200):
        os.symlink(f"../.git/annex/objects/{number}", tmp_path / f"{number:04}")
    (remark,) = remarks(str(tmp_path), listed(tmp_path).links)
    assert remark.message.startswith(f"in {tmp_path} 1,200 links are left out: 0000 (")
    assert remark.message.endswith("0002 (git-annex has not fetched its content) and 1,197 more")
    assert remark.hint == f"Fetch the content: `git -C {tmp_path} annex get .`."
