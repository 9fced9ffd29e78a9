"""Repository facts, read from ``.git`` as plain files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from homes import Lay

from forensic.capture.context import repository

ONE, TWO = b"1" * 40, b"2" * 64


def test_a_branch_and_its_commit(lay: Lay) -> None:
    """From a folder below the top; a loose reference wins over a packed one."""
    root = lay(
        {
            "r/.git/HEAD": b"ref: refs/heads/feature/x\n",
            "r/.git/refs/heads/feature/x": ONE + b"\n",
            "r/.git/packed-refs": b"# pack-refs with: peeled\n" + TWO + b" refs/heads/feature/x\n",
            "r/a/b/c": b"",
        }
    )
    expected = {"top": f"{root}/r", "head": "refs/heads/feature/x", "commit": ONE.decode()}
    assert repository(f"{root}/r/a/b") == {"cwd": f"{root}/r/a/b"} | expected
    (root / "r/.git/refs/heads/feature/x").unlink()
    assert repository(f"{root}/r") == {"cwd": f"{root}/r"} | expected | {"commit": TWO.decode()}


def test_a_detached_head_and_an_unborn_branch(lay: Lay) -> None:
    """Only a commit, only a name."""
    root = lay({"d/.git/HEAD": TWO + b"\n", "u/.git/HEAD": b"ref: refs/heads/main\n"})
    assert repository(f"{root}/d") == {"cwd": f"{root}/d", "top": f"{root}/d", "commit": TWO.decode()}
    assert repository(f"{root}/u") == {"cwd": f"{root}/u", "top": f"{root}/u", "head": "refs/heads/main"}


def test_worktrees_and_submodules(lay: Lay) -> None:
    """A file ``.git`` names the folder with HEAD, and ``commondir`` the one with the references."""
    root = lay(
        {
            "w/x": b"",
            "main/.git/HEAD": b"ref: refs/heads/main\n",
            "main/.git/refs/heads/topic": ONE,
            "main/.git/worktrees/w/HEAD": b"ref: refs/heads/topic\n",
            "main/.git/worktrees/w/commondir": b"../..\n",
            "main/sub/.git": b"gitdir: ../.git/modules/sub\n",
            "main/.git/modules/sub/HEAD": TWO,
        }
    )
    (root / "w/.git").write_text(f"gitdir: {root}/main/.git/worktrees/w\n")
    assert repository(f"{root}/w") == {
        "cwd": f"{root}/w", "top": f"{root}/w", "head": "refs/heads/topic", "commit": ONE.decode(),
    }  # fmt: skip
    assert repository(f"{root}/main/sub") == {
        "cwd": f"{root}/main/sub", "top": f"{root}/main/sub", "commit": TWO.decode(),
    }  # fmt: skip


def test_folders_of_no_repository(lay: Lay, tmp_path: Path) -> None:
    """Gone, relative, on another computer, or no text for a path: nothing. There, but in no repository: only that."""
    root = lay({"plain/x": b"", "odd/.git/config": b""})
    for cwd in (f"{root}/gone", "plain", "", "\\\\server\\share", "C:\\Users", "a\0b", f"{root}/plain/x"):
        assert repository(cwd) is None
    for name in ("plain", "odd"):
        assert repository(f"{root}/{name}") == {"cwd": f"{root}/{name}"}


@pytest.mark.parametrize(
    "head",
    [b"ref: ../../../etc/passwd", b"ref: refs/../../secret", b"ref: /etc/passwd", b"ref: refs/heads/.invalid",
     b"secret of mine", b"ref: refs/heads/a b", b"", b"ref: refs/heads/x\x1b[31m", b"1" * 41],
)  # fmt: skip
def test_what_is_no_reference_is_not_kept(head: bytes, lay: Lay) -> None:
    """Nothing of a hostile or foreign HEAD goes into a bundle."""
    root = lay({"r/.git/HEAD": head, "secret": ONE, "r/.git/refs/heads/.invalid": b"x"})
    assert repository(f"{root}/r") in ({"cwd": f"{root}/r", "top": f"{root}/r"}, {"cwd": f"{root}/r"})


def test_links_pipes_and_chains_end(lay: Lay) -> None:
    """HEAD as a pipe or a link is not opened; references that name each other are followed five times."""
    root = lay(
        {
            "loop/.git/HEAD": b"ref: refs/heads/a\n",
            "loop/.git/refs/heads/a": b"ref: refs/heads/b\n",
            "loop/.git/refs/heads/b": b"ref: refs/heads/a\n",
            "chain/.git/HEAD": b"ref: refs/heads/a\n",
            "chain/.git/refs/heads/a": b"ref: refs/heads/b\n",
            "chain/.git/refs/heads/b": ONE,
            "odd/.git/HEAD": b"ref: refs/heads/a\n",
            "odd/.git/refs/heads/a": b"secret of mine\n",
        }
    )
    for name in ("pipe", "link"):
        (root / name / ".git").mkdir(parents=True)
    os.mkfifo(root / "pipe/.git/HEAD")
    (root / "link/.git/HEAD").symlink_to(root / "chain/.git/HEAD")
    named = {"head": "refs/heads/a"}
    expected = {"loop": named, "chain": named | {"commit": ONE.decode()}, "odd": named}
    for name, facts in expected.items():
        assert repository(f"{root}/{name}") == {"cwd": f"{root}/{name}", "top": f"{root}/{name}"} | facts
    for name in ("pipe", "link"):
        assert repository(f"{root}/{name}") == {"cwd": f"{root}/{name}"}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not there")
def test_it_agrees_with_git(tmp_path: Path) -> None:
    """A repository that git itself made, with a worktree and packed references."""
    home = tmp_path / "repo"
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(tmp_path)}

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(home), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()

    home.mkdir()
    git("init", "-q", "-b", "trunk")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git("pack-refs", "--all")
    commit = git("rev-parse", "HEAD")
    for folder, branch in ((home, "trunk"), (tmp_path / "side", "side")):
        assert repository(str(folder)) == {
            "cwd": str(folder), "top": str(folder), "head": f"refs/heads/{branch}", "commit": commit,
        }  # fmt: skip
