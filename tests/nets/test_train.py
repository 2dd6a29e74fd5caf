import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cofill.errors import DataError, SettingError, TrainingError
from cofill.nets import (
    MLP,
    Autoencoder,
    SquaredError,
    Task,
    TrainSettings,
    apply_rows,
    recipe,
    split_keys,
    train,
)

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
LOSS = SquaredError()


def table(rows, columns=3):
    return RNG.normal(size=(rows, columns)).astype(np.float32)


def flat(network):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(network)])


def close(one, other, tolerance=1e-5):
    np.testing.assert_allclose(flat(one), flat(other), atol=tolerance)


def first_column(network, x, y, key):
    return x[:, 0]


X = table(24)
TASKS = [Task(recipe(MLP, (3, 4, 3)), X, key=key) for key in split_keys(KEY, 6)]


@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        (
            TrainSettings(epochs=2, optimizer="adamw", weight_decay=0.1),
            optax.adamw(1e-3, weight_decay=0.1),
        ),
        (
            TrainSettings(epochs=2, optimizer="sgd", gradient_clip=0.1, learning_rate=0.1),
            optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.1)),
        ),
        (
            TrainSettings(epochs=2, schedule="cosine"),
            optax.adam(optax.cosine_decay_schedule(1e-3, 2)),
        ),
    ],
)
def test_full_batch_steps_are_optax_steps(settings, theirs):
    network = MLP((3, 4, 3), key=KEY)
    settings = TrainSettings(**{**vars(settings), "batch_size": None})
    ours = train([Task(network, X, key=KEY)], LOSS, settings).networks[0]

    @jax.jit
    def two_steps(network):
        state = theirs.init(network)
        for _ in range(2):
            slope = jax.grad(lambda network: ((jax.vmap(network)(X) - X) ** 2).mean())(network)
            step, state = theirs.update(slope, state, network)
            network = optax.apply_updates(network, step)
        return network

    close(ours, two_steps(network), 1e-6)


def test_a_linear_network_finds_the_least_squares_solution():
    y = X @ RNG.normal(size=(3, 2)).astype(np.float32) + 0.1 * table(24, 2)
    settings = TrainSettings(epochs=1500, batch_size=None, optimizer="sgd", learning_rate=0.2)
    trained = train([Task(recipe(MLP, (3, 2)), X, y, key=KEY)], LOSS, settings)
    best = np.linalg.lstsq(np.hstack([X, np.ones((24, 1))]), y, rcond=None)[0]
    np.testing.assert_allclose(trained.networks[0].weights[0], best[:3].T, atol=1e-4)
    np.testing.assert_allclose(trained.networks[0].biases[0], best[3], atol=1e-4)


def test_every_row_is_seen_once_an_epoch():
    # One step of plain descent on a linear loss moves the parameter by the sum of the rows seen.
    rows = np.arange(1.0, 11.0, dtype=np.float32)[:, None]

    def linear(network, x, y, key):
        return network["w"] * x[:, 0]

    settings = TrainSettings(epochs=1, batch_size=2, optimizer="sgd", learning_rate=1.0)
    tasks = [Task({"w": jnp.zeros(())}, rows, key=key) for key in split_keys(KEY, 3)]
    trained = train(tasks, linear, settings)
    for network in trained.networks:
        assert float(network["w"]) == pytest.approx(-rows.sum() / 2)


@pytest.mark.parametrize("memory_limit", [1, 2**31])
def test_chunks_change_nothing(memory_limit):
    settings = TrainSettings(epochs=3, batch_size=8, learning_rate=1e-2, memory_limit=memory_limit)
    whole = train(TASKS, LOSS, settings)
    for position in (5,):
        alone = train([TASKS[position]], LOSS, settings)
        close(alone.networks[0], whole.networks[position])
        np.testing.assert_allclose(alone.train_loss[0], whole.train_loss[position], rtol=1e-5)


@pytest.mark.parametrize("batch_size", [2, None])
def test_padded_rows_change_nothing(batch_size):
    # Five to eight steps of two rows: one group, in which the third task has fewest of both.
    network = recipe(MLP, (3, 4, 3))
    tasks = [
        Task(network, table(rows), key=key)
        for rows, key in zip((20, 14, 13, 16), split_keys(KEY, 4), strict=True)
    ]
    settings = TrainSettings(
        epochs=3, batch_size=batch_size, learning_rate=1e-2, validation_fraction=0.2
    )
    together = train(tasks, LOSS, settings)
    for position in (2,):
        alone = train([tasks[position]], LOSS, settings)
        close(alone.networks[0], together.networks[position])
        np.testing.assert_allclose(
            alone.validation_loss[0], together.validation_loss[position], rtol=1e-5
        )


def test_different_structures_train_in_one_call():
    tasks = [TASKS[0], Task(recipe(Autoencoder, (3, 2)), X, key=KEY), TASKS[1]]
    trained = train(tasks, LOSS, TrainSettings(epochs=3, batch_size=8, learning_rate=1e-2))
    assert isinstance(trained.networks[1], Autoencoder)
    assert [trained.networks[k].weights[0].shape for k in (0, 2)] == [(4, 3)] * 2


def test_the_same_call_is_the_same_bit_for_bit_and_keys_matter():
    settings = TrainSettings(epochs=3, batch_size=8, learning_rate=1e-2)
    first, second = (train(TASKS, LOSS, settings) for _ in range(2))
    for one, other in zip(first.networks, second.networks, strict=True):
        np.testing.assert_array_equal(flat(one), flat(other))
    assert len({float(loss) for loss in first.final_loss}) == len(TASKS)
    typed = [Task(TASKS[0].network, X, key=key) for key in jax.random.split(KEY, 6)]
    close(train(typed, LOSS, settings).networks[3], first.networks[3])


def test_early_stopping_keeps_the_best():
    y = table(24, 2)  # noise: the validation loss must turn
    tasks = [Task(recipe(MLP, (3, 40, 2)), X, y, key=key) for key in split_keys(KEY, 4)]
    settings = TrainSettings(
        epochs=300, batch_size=None, learning_rate=3e-2, validation_fraction=0.25, patience=5
    )
    trained = train(tasks, LOSS, settings)
    assert (trained.epochs_used < 300).all()
    for position in range(4):
        history = trained.validation_loss[position]
        used = int(trained.epochs_used[position])
        assert np.nanargmin(history) == used - 6  # five worse epochs follow the best
        assert np.isnan(history[used:]).all()
    shorter = TrainSettings(**{**vars(settings), "epochs": used - 5, "patience": 0})
    close(train([tasks[3]], LOSS, shorter).networks[0], trained.networks[3])


def test_validation_rows_are_not_trained_on():
    # The mean of the training rows is the best constant; validation rows must not pull it.
    seen = {}

    def spy(network, x, y, key):
        seen["key"] = key
        return (network["w"] - x[:, 0]) ** 2

    rows = np.where(np.arange(20) == 7, 100.0, 1.0).astype(np.float32)[:, None]
    settings = TrainSettings(epochs=1, batch_size=None, optimizer="sgd", learning_rate=0.5,
                             validation_fraction=0.5)  # fmt: skip
    tasks = [Task({"w": jnp.zeros(())}, rows, key=key) for key in split_keys(KEY, 8)]
    trained = train(tasks, spy, settings)
    means = {round(float(network["w"]), 3) for network in trained.networks}
    assert means == {1.0, 10.9}
    assert seen["key"] is None  # the validation rows are scored last, without noise


def diverging(scale):
    # Descent on scale · w² doubles or worse for steps above 1 / scale.
    def loss(network, x, y, key):
        return x[:, 0] * network["w"] ** 2

    rows = np.full((4, 1), scale, np.float32)
    return loss, Task({"w": jnp.ones(())}, rows, key=KEY, name="steep")


def test_a_diverged_network_restarts_with_smaller_steps():
    loss, steep = diverging(50.0)
    flat_one = Task(steep.network, np.full((4, 1), 0.1, np.float32), key=KEY)
    settings = TrainSettings(
        epochs=40, batch_size=None, optimizer="sgd", learning_rate=1.0, restarts=3
    )
    trained = train([flat_one, steep], loss, settings)
    assert trained.restarts_used.tolist() == [0, 2]
    assert trained.epochs_used.tolist() == [40, 40]
    assert trained.steps[0] == 40 < trained.steps[1]
    assert np.isfinite(trained.train_loss).all()
    # 1 − 2 · 0.01 · 50 = 0: the third attempt lands on the minimum at once.
    assert float(trained.networks[1]["w"]) == pytest.approx(0.0, abs=1e-6)
    close(train([flat_one], loss, settings).networks[0], trained.networks[0])


def test_a_network_that_keeps_diverging_is_an_error_that_names_it():
    loss, steep = diverging(1e6)
    settings = TrainSettings(
        epochs=40, batch_size=None, optimizer="sgd", learning_rate=1.0, restarts=2
    )
    with pytest.raises(TrainingError, match=r"1 of 2 networks diverged after 2 restarts.*: steep;"):
        train([Task(steep.network, np.zeros((4, 1), np.float32), key=KEY), steep], loss, settings)
    with pytest.raises(TrainingError, match=": 0;"):
        train([Task(MLP((3, 3), key=KEY), X * np.nan, key=KEY)], first_column, settings)


def test_progress_is_reported_and_can_interrupt():
    reports = []
    settings = TrainSettings(epochs=30, batch_size=8)
    train(TASKS, LOSS, settings, progress=lambda *report: reports.append(report))
    assert reports[-1][:2] == (180, 180)
    assert [done for done, _, _ in reports] == sorted(done for done, _, _ in reports)
    assert np.isfinite(reports[-1][2]).all()

    def interrupt(done, total, losses):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(TASKS, LOSS, settings, progress=interrupt)


def test_inputs_may_be_a_pytree():
    def loss(network, x, y, key):
        return ((apply_rows(network, x["a"]) - y) ** 2).mean(axis=1) + 0 * x["b"]

    settings = TrainSettings(epochs=3, batch_size=7, learning_rate=1e-2)
    task = Task(recipe(MLP, (3, 3)), {"a": X, "b": X[:, 0]}, X, key=KEY)
    plain = Task(recipe(MLP, (3, 3)), X, key=KEY)
    close(train([task], loss, settings).networks[0], train([plain], LOSS, settings).networks[0])


@pytest.mark.parametrize(
    ("changed", "error", "word"),
    [
        ({"targets": table(5)}, DataError, "same number of rows"),
        ({"weight_decay": -1.0}, SettingError, "weight_decay must be 0 or more"),
        ({"key": None}, SettingError, "key must be"),
    ],
)
def test_wrong_tasks_are_named(changed, error, word):
    with pytest.raises(error, match=word):
        Task(**{"network": TASKS[0].network, "inputs": X, "key": KEY, **changed})


def test_nothing_to_train_is_an_error():
    with pytest.raises(SettingError, match="tasks must"):
        train([], LOSS, TrainSettings())
    with pytest.raises(DataError, match="a row left"):
        train(
            [Task(TASKS[0].network, X[:1], key=KEY)], LOSS, TrainSettings(validation_fraction=0.5)
        )
