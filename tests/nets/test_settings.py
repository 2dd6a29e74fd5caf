import subprocess
import sys

import jax.numpy as jnp
import optax
import pytest

from cofill.errors import SettingError
from cofill.nets import DPSettings, TrainSettings
from cofill.nets._settings import schedule_at


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (TrainSettings, {"epochs": 0}),
        (TrainSettings, {"batch_size": 0}),
        (TrainSettings, {"learning_rate": 0.0}),
        (TrainSettings, {"learning_rate": float("nan")}),
        (TrainSettings, {"weight_decay": -1.0}),
        (TrainSettings, {"validation_fraction": 1.0}),
        (TrainSettings, {"patience": -1}),
        (TrainSettings, {"gradient_clip": 0.0}),
        (TrainSettings, {"restarts": -1}),
        (TrainSettings, {"memory_limit": 0}),
        (DPSettings, {"clip_norm": 0.0, "noise_multiplier": 1.0}),
        (DPSettings, {"noise_multiplier": -1.0, "clip_norm": 1.0}),
    ],
)
def test_a_wrong_setting_is_named(kind, changed):
    with pytest.raises(SettingError, match=f"^{next(iter(changed))} must .* got "):
        kind(**changed)


def test_early_stopping_and_privacy_exclude_each_other():
    with pytest.raises(SettingError, match="patience"):
        TrainSettings(patience=1, dp=DPSettings(1.0, 1.0))


def test_cosine_is_optax_cosine():
    ours = schedule_at(
        TrainSettings(schedule="cosine", learning_rate=0.5), jnp.arange(10), jnp.array(10)
    )
    theirs = optax.cosine_decay_schedule(0.5, 10)(jnp.arange(10))
    assert jnp.allclose(ours, theirs, atol=1e-6)


def test_warmup_rises_to_the_top_and_falls_to_zero():
    settings = TrainSettings(schedule="warmup-cosine", learning_rate=1.0)
    rate = schedule_at(settings, jnp.arange(101), jnp.array(100))
    assert jnp.all(jnp.diff(rate[:10]) > 0)
    assert float(rate[9]) == pytest.approx(1.0)
    assert jnp.all(jnp.diff(rate[10:]) < 0)
    assert float(rate[100]) == pytest.approx(0.0, abs=1e-6)


def test_import_changes_no_configuration_and_the_cache_is_used(tmp_path):
    code = """
import jax
before = dict(jax.config.values)
import cofill.nets, cofill.paths
assert dict(jax.config.values) == before
cofill.paths.keep_compiled_programs()
jax.jit(lambda x: x * 2 + 1)(3.0)
"""
    environment = {"COFILL_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
    assert any((tmp_path / "jax").iterdir())
