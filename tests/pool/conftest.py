"""Pools of real processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.pool import Pool


@pytest.fixture
def make_pool() -> Iterator[Callable[[str], Pool]]:
    """Makes pools (not started yet) in short directories, so that UNIX socket paths fit; all end with the test."""
    made: list[Pool] = []
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:

        def make(config: str = "") -> Pool:
            made.append(Pool(Path(directory) / f"p{len(made)}", config))
            return made[-1]

        try:
            yield make
        finally:
            for pool in made:
                pool.destroy()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other accounts reach: those of pytest are its user's, and each of its runs makes them so."""
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
