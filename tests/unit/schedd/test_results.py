"""Results on disk: in their places, or kept in SPOOL for the next run."""

from __future__ import annotations

import errno
import getpass
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.schedd.transfer import results as module
from slotwise.schedd.transfer.files import FilePlan, TransferError
from slotwise.schedd.transfer.results import Results, spooled_files
from slotwise.transfer.pieces import Piece

LARGE = b"x" * 300_000


def of(iwd: Path, run: str = "1.0#1") -> Results:
    return Results(FilePlan(getpass.getuser(), str(iwd), stdout="out", remaps={"made": "elsewhere"}), run)


def take(results: Results, **small: bytes) -> None:
    for name, data in small.items():
        results.keep(name, 0o644, data, directory=False)


def tree(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()}


def test_large_and_small_files_are_kept_for_the_next_run(tmp_path: Path) -> None:
    iwd, spool = tmp_path / "iwd", tmp_path / "spool/1/0"
    iwd.mkdir()
    first = of(iwd)
    take(first, made=b"one", kept=b"12345", _condor_stdout=b"text")
    first.keep("sub", 0o755, b"", directory=True)
    first.write("sub/large", 0o600, LARGE, 0)
    first.place_in_spool(str(spool))
    assert tree(spool) == {"_condor_stdout": 4, "kept": 5, "made": 3, "sub/large": len(LARGE)}
    assert tree(iwd) == {}, "nothing in the job's directory"
    second = of(iwd, "1.0#2")
    take(second, made=b"two more")
    second.place_in_spool(str(spool))
    assert tree(spool) == {"_condor_stdout": 4, "kept": 5, "made": 8, "sub/large": len(LARGE)}
    assert [path.name for path in spool.parent.iterdir()] == ["0"], "no leftovers"


def test_a_checkpoint_that_cannot_be_kept_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iwd, spool = tmp_path / "iwd", tmp_path / "spool"
    iwd.mkdir()
    first = of(iwd)
    take(first, made=b"one")
    first.place_in_spool(str(spool))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "write_all", full)
    second = of(iwd, "1.0#2")
    take(second, made=b"two", other=b"x")
    with pytest.raises(TransferError) as caught:
        second.place_in_spool(str(spool))
    assert (caught.value.hold_code, caught.value.subcode) == (12, errno.ENOSPC)
    assert tree(tmp_path) == {"spool/made": 3}


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_what_the_owner_puts_under_a_temporary_name_is_not_kept(tmp_path: Path, link: Callable[..., None]) -> None:
    iwd, spool, secret = tmp_path / "iwd", tmp_path / "spool", tmp_path / "secret"
    iwd.mkdir()
    secret.write_text("only the schedd knows")
    secret.chmod(0o600)
    results = of(iwd)
    results.write("large", 0o644, LARGE, 0)
    (temporary,) = iwd.iterdir()
    temporary.unlink()
    link(secret, temporary)
    with pytest.raises(TransferError) as caught:
        results.place_in_spool(str(spool))
    assert caught.value.hold_code == 12
    assert not spool.exists() and secret.stat().st_mode & 0o777 == 0o600


def test_a_large_file_is_copied_to_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iwd, spool = tmp_path / "iwd", tmp_path / "spool"
    iwd.mkdir()
    results = of(iwd)
    results.write("large", 0o640, LARGE, 0)
    rename = os.rename

    def far(source: str, target: str) -> None:
        if Path(source).parent == iwd:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    monkeypatch.setattr(os, "rename", far)
    results.place_in_spool(str(spool))
    assert (spool / "large").read_bytes() == LARGE and (spool / "large").stat().st_mode & 0o777 == 0o640
    assert tree(iwd) == {}


def test_a_change_cut_short_is_undone(tmp_path: Path) -> None:
    former = tmp_path / "spool.old"
    former.mkdir()
    (former / "made").write_text("one")
    assert spooled_files(str(tmp_path / "spool")) == str(tmp_path / "spool")
    assert tree(tmp_path) == {"spool/made": 3}
    assert spooled_files(str(tmp_path / "other")) == ""


def test_one_result_that_has_no_place_does_not_keep_the_others_from_theirs(tmp_path: Path) -> None:
    (tmp_path / "wanted").mkdir()
    results = of(tmp_path)
    take(results, wanted=b"in the way is a directory", other=b"x")
    results.write("large", 0o644, LARGE, 0)
    results.write("wanted/../../out of it", 0o644, LARGE, 0)
    with pytest.raises(TransferError) as caught:
        results.place()
    assert caught.value.hold_code == 12
    assert tree(tmp_path) == {"large": len(LARGE), "other": 1}


def test_a_large_file_that_does_not_fit_is_out_of_the_way_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = of(tmp_path)
    results.write("large", 0o644, LARGE, 0, last=False)
    assert list(tmp_path.iterdir())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_all", full)
        results.write("large", 0o644, LARGE, len(LARGE))
    assert not list(tmp_path.iterdir())
    take(results, other=b"x")
    with pytest.raises(TransferError) as caught:
        results.place()
    assert caught.value.subcode == errno.ENOSPC
    assert tree(tmp_path) == {"other": 1}


def test_half_of_a_file_is_no_result_and_leaves_nothing(tmp_path: Path) -> None:
    results = of(tmp_path)
    results.write("half", 0o644, LARGE, 0, last=False)
    assert list(tmp_path.iterdir())
    results.place()
    assert not list(tmp_path.iterdir())
    results.write("half", 0o644, LARGE, len(LARGE))
    assert not list(tmp_path.iterdir()), "it comes too late"


def test_directories_keep_the_rights_that_they_have_here_or_had_there(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir(mode=0o700)
    results = of(tmp_path)
    results.keep("here", 0o755, b"", directory=True)
    results.keep("there", 0o700, b"", directory=True)
    results.place()
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("here", "there")] == [0o700, 0o700]


@pytest.mark.parametrize("size", [5, 300_000])
def test_a_result_goes_where_a_link_of_its_name_leads(tmp_path: Path, size: int) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "made").symlink_to("far/made")
    results = Results(FilePlan(getpass.getuser(), str(tmp_path)), "1.0#1")
    if size == 5:
        results.keep("made", 0o644, bytes(size), directory=False)
    else:
        results.write("made", 0o644, bytes(size), 0)
    results.place()
    assert (tmp_path / "made").is_symlink()
    assert tree(tmp_path / "far") == {"made": size}


@pytest.mark.parametrize("size", [5, 300_000])
@pytest.mark.parametrize("remap", ["/dev/null", "nothing"])
def test_a_result_may_go_to_dev_null(tmp_path: Path, size: int, remap: str) -> None:
    (tmp_path / "nothing").symlink_to("/dev/null")
    results = Results(FilePlan(getpass.getuser(), str(tmp_path), remaps={"made": remap}), "1.0#1")
    if size == 5:
        results.keep("made", 0o644, bytes(size), directory=False)
    else:
        results.write("made", 0o644, bytes(size), 0)
    results.place()
    assert tree(tmp_path) == {}
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("size", [5, 300_000])
def test_names_may_be_as_long_as_names_may_be(tmp_path: Path, size: int) -> None:
    name = "n" * 255
    results = of(tmp_path)
    if size == 5:
        results.keep(name, 0o644, bytes(size), directory=False)
    else:
        results.write(name, 0o644, bytes(size), 0)
    results.place()
    assert tree(tmp_path) == {name: size}


def test_memory_takes_so_many_small_files(tmp_path: Path) -> None:
    results = of(tmp_path)
    content = bytes(200_000)
    in_memory = 0
    for number in range(100):
        piece = Piece(f"f{number}", 0o644, content, offset=0, last=True)
        if results.is_small(piece):
            results.keep(f"f{number}", 0o644, content, directory=False)
            in_memory += 1
        else:
            results.write(f"f{number}", 0o644, content, 0, last=True)
    assert in_memory * len(content) <= 8 * 1024 * 1024
    results.place()
    assert tree(tmp_path) == {f"f{number}": len(content) for number in range(100)}
