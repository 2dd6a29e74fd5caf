"""Where things are kept: what the environment says, and what is left alone."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cofill import paths
from cofill.paths import compiled_folder, data_folder, keep_compiled_programs

SIZE = "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"
TIME = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
CACHE = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture
def environ(monkeypatch):
    """An empty environment; what is written to it is gone after the test."""
    new = {"HOME": "/home/ada"}
    monkeypatch.setattr(os, "environ", new)
    monkeypatch.setattr(paths.sys, "platform", "linux")
    return new


@pytest.mark.parametrize(
    ("given", "data", "compiled"),
    [
        ({}, "/home/ada/.cache/cofill/data", "/home/ada/.cache/cofill/jax"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/cofill/data", "/x/cofill/jax"),
        ({"XDG_CACHE_HOME": "/x", "COFILL_DATA": "/d"}, "/d", "/x/cofill/jax"),
        ({"XDG_CACHE_HOME": "/x", "COFILL_CACHE": "/c"}, "/x/cofill/data", "/c/jax"),
        ({"COFILL_DATA": "~/d", "COFILL_CACHE": "~/c"}, "/home/ada/d", "/home/ada/c/jax"),
        (
            {"COFILL_DATA": "", "COFILL_CACHE": "", "XDG_CACHE_HOME": ""},
            "/home/ada/.cache/cofill/data",
            "/home/ada/.cache/cofill/jax",
        ),
    ],
)
def test_the_environment_decides(environ, given, data, compiled):
    environ.update(given)
    assert data_folder() == Path(data)
    assert compiled_folder() == Path(compiled)


@pytest.mark.parametrize(
    ("platform", "given", "data"),
    [
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/home/ada/Library/Caches/cofill/data"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/cofill/data"),
        ("win32", {}, "/home/ada/AppData/Local/cofill/data"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="a home folder of POSIX")
def test_other_systems_have_other_cache_folders(environ, monkeypatch, platform, given, data):
    monkeypatch.setattr(paths.sys, "platform", platform)
    environ.update(given)
    assert data_folder() == Path(data)


def test_before_jax_is_imported_the_environment_tells_it(environ, monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    environ["COFILL_CACHE"] = "/c"
    keep_compiled_programs()
    assert "jax" not in sys.modules
    assert Path(environ[CACHE]) == Path("/c/jax")
    assert (environ[TIME], environ[SIZE]) == ("0.0", "-1")


def test_before_jax_is_imported_what_the_user_chose_stays(environ, monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    mine = {CACHE: "/mine", TIME: "5", SIZE: "100"}
    environ.update(mine)
    keep_compiled_programs()
    assert {name: environ[name] for name in mine} == mine


@pytest.mark.parametrize("chosen", [None, "/mine"])
def test_after_jax_is_imported_its_settings_change_unless_chosen(environ, monkeypatch, chosen):
    told = {}
    config = SimpleNamespace(jax_compilation_cache_dir=chosen, update=told.__setitem__)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=config))
    environ["COFILL_CACHE"] = "/c"
    keep_compiled_programs()
    names = {name.lower() for name in (CACHE, TIME, SIZE)}
    assert set(told) == (names if chosen is None else set())
    if chosen is None:
        assert Path(told[CACHE.lower()]) == Path("/c/jax")
    assert not any(name.startswith("JAX") for name in environ)


def test_jax_reads_what_it_was_told(tmp_path):
    script = (
        "import sys; from cofill.paths import keep_compiled_programs as keep; keep();"
        "assert 'jax' not in sys.modules; import jax; c = jax.config;"
        "print(c.jax_compilation_cache_dir, c.jax_persistent_cache_min_compile_time_secs,"
        " c.jax_persistent_cache_min_entry_size_bytes)"
    )
    names = (CACHE, TIME, SIZE)
    clean = {name: value for name, value in os.environ.items() if name not in names}
    clean |= {"COFILL_CACHE": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(tmp_path / "jax"), "0.0", "-1"]


def test_a_program_that_was_half_written_is_compiled_anew_without_a_word(tmp_path):
    script = (
        "from cofill.paths import keep_compiled_programs as keep; keep();"
        "import jax; print(jax.jit(lambda x: x + 1)(1))"
    )
    names = (CACHE, TIME, SIZE)
    clean = {name: value for name, value in os.environ.items() if name not in names}
    clean |= {"COFILL_CACHE": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", script]
    subprocess.run(command, env=clean, capture_output=True, check=True)
    entries = list((tmp_path / "jax").glob("*-cache"))
    assert entries
    for entry in entries:  # as a process leaves them that is killed while it writes
        entry.write_bytes(entry.read_bytes()[:100])
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("2\n", "")
