from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

from cofill.attack._base import AttackFailed
from cofill.attack._classifiers import ASIDE, AbstractTraining, layer_widths, logits
from cofill.attack._pu import NNPU, UPU, PUSettings
from cofill.attack._risks import pu_risk
from cofill.attack._runs import score_runs, train_classifiers
from cofill.errors import DataError, SettingError
from cofill.nets import MLP, apply_rows, shuffle_rows

FAST = {"batch": 100, "learning_rate": 0.1, "epochs": 40}


def blobs(count=400, features=4, seed=0, gap=1.5):
    positive = np.arange(count) < count // 2
    noise = np.random.default_rng(seed).normal(size=(count, features))
    return (noise + np.where(positive, gap, -gap)[:, None]).astype(np.float32), positive


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


def train_pu(records, which, positives, prior, run_keys, settings, **rest):
    return train_classifiers(
        settings, records, which, run_keys, positives=positives, prior=prior, **rest
    )


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        ("linear", (5, 1)),
        ("3lp-300", (5, 300, 1)),
        ("4lp-7", (5, 7, 7, 1)),
        ("5lp-2", (5, 2, 2, 2, 1)),
    ],
)
def test_classifiers_by_name(text, widths):
    assert layer_widths(text, 5) == widths


@pytest.mark.parametrize("text", ["", "Linear", "2lp-5", "3lp", "3lp-0", "3lp-x", "10lp-5"])
def test_an_unknown_classifier_is_refused(text):
    with pytest.raises(SettingError, match="classifier must be"):
        PUSettings(classifier=text)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (PUSettings, {"batch": 0}),
        (PUSettings, {"optimizer": "newton"}),
        (PUSettings, {"learning_rate": 0}),
        (PUSettings, {"learning_rate": float("nan")}),
        (PUSettings, {"weight_decay": -1}),
        (PUSettings, {"activation": "sine"}),
        (PUSettings, {"dropout": 1}),
        (PUSettings, {"curve_every": -1}),
        (PUSettings, {"epochs": 0}),
        (PUSettings, {"loss": "logistic"}),
        (PUSettings, {"beta": -0.1}),
        (PUSettings, {"gamma": 1.5}),
    ],
)
def test_a_wrong_setting_is_named(kind, settings):
    name = next(iter(settings))
    with pytest.raises(SettingError, match=f"{name} must be .*, got"):
        kind(**settings)


def test_logits_are_those_of_the_network():
    network = MLP((4, 6, 6, 1), key=jax.random.key(1), activation="tanh", dropout=0.5)
    rows = jax.random.normal(jax.random.key(2), (7, 4))
    expected = apply_rows(network, rows)[:, 0]
    assert np.allclose(logits(network, rows), expected, atol=1e-6)
    many = jax.vmap(lambda key: logits(network, rows, key))(keys(4_000))
    assert many.std(axis=0).min() > 0.01  # dropout acts
    linear = MLP((4, 6, 1), key=jax.random.key(1), activation="tanh", dropout=0.5)
    many = jax.vmap(lambda key: logits(linear, rows, key))(keys(4_000))
    error = many.std(axis=0) / np.sqrt(4_000)
    assert (abs(many.mean(axis=0) - logits(linear, rows)) < 5 * error).all()  # and is fair


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("non_negative", [True, False])
def test_one_step_by_hand(non_negative, below, decay):
    settings = PUSettings(
        epochs=1, batch=60, learning_rate=0.5, weight_decay=decay, non_negative=non_negative
    )
    start = settings.network(4, jax.random.fold_in(keys(1)[0], ASIDE))
    w, b = np.asarray(start.weights[0])[0], float(start.biases[0][0])
    x, positive = blobs(60)
    mean = x[positive].mean(axis=0)
    if below:  # the mean on the positive side and nearly all records on the other
        up = w / (w @ w)
        x, mean = x - 6 * up, mean + (4 - mean @ w) * up
    runs = train_pu(x[None], [0], mean[None, None], 0.3, keys(1), settings)
    s_m, s_u = expit(mean @ w + b), expit(x @ w + b)
    slope_m, slope_u = s_m * (1 - s_m), s_u * (1 - s_u)
    # Slopes of the two parts of the risk: ℓ(z, 1) = 1 − σ(z) and ℓ(z, −1) = σ(z).
    rows = np.column_stack([x, np.ones(60)])
    row_m = np.append(mean, 1)
    of_p = -0.3 * slope_m * row_m
    of_n = (slope_u[:, None] * rows).mean(axis=0) - 0.3 * slope_m * row_m
    assert (s_u.mean() - 0.3 * s_m < 0) == below
    slope = -of_n if non_negative and below else of_p + of_n
    expected = np.append(w, b) - 0.5 * (slope + decay * np.append(w, b))
    network = runs.network(0)
    assert np.allclose(np.append(network.weights[0][0], network.biases[0]), expected, atol=1e-5)


@pytest.mark.parametrize(
    "attack",
    [
        UPU(settings=PUSettings(**FAST)),
        NNPU(settings=PUSettings(**FAST)),
        NNPU(settings=PUSettings(**FAST, classifier="3lp-10")),
    ],
)
def test_an_attack_finds_the_class(attack):
    x, positive = blobs()
    fitted = clone(attack).fit(x, mean=x[positive].mean(axis=0), prior=0.5)
    assert (fitted.labels_ == positive).mean() > 0.95
    assert fitted.outcome_ == "ok"
    repeated = clone(attack).fit(x, mean=x[positive].mean(axis=0), prior=0.5)
    assert (repeated.scores_ == fitted.scores_).all()


@pytest.fixture(scope="module")
def together():
    x, positive = blobs()
    other, _ = blobs(seed=1)
    records, labels = np.stack([x, other[::-1]]), np.stack([positive, positive[::-1]])
    which = [0, 1, 1]
    means = np.stack([records[k][labels[k]].mean(axis=0) for k in which])
    settings = PUSettings(**FAST, classifier="3lp-10", curve_every=20)
    runs = train_pu(
        records, which, means[:, None], [0.5, 0.5, 0.4], keys(3), settings, labels=labels
    )
    return records, which, means, settings, labels, runs


def test_runs_together_are_runs_alone(together):
    records, which, means, settings, _, runs = together
    priors = [0.5, 0.5, 0.4]
    for k in range(3):
        run = slice(k, k + 1)
        run_records = records[which[k]][None]
        alone = train_pu(run_records, [0], means[run, None], priors[k], keys(3)[run], settings)
        assert np.allclose(alone.scores[0], runs.scores[k], atol=2e-4)
        assert alone.outcomes[0] == runs.outcomes[k] == "ok"
    assert abs(runs.scores[1] - runs.scores[2]).max() > 0.01  # another key and prior


def test_curves_end_where_the_training_ends(together):
    _, _, _, _, labels, runs = together
    assert runs.steps.tolist() == [20, 40, 60, 80, 100, 120, 140, 160]
    assert runs.share.shape == runs.accuracy.shape == runs.phase.shape == (3, 8)
    assert np.allclose(runs.share[:, -1], runs.labels.mean(axis=1))
    assert np.allclose(runs.accuracy[:, -1], (runs.labels == labels[[0, 1, 1]]).mean(axis=1))


def test_labels_are_for_the_curve_only(together):
    records, which, means, settings, labels, runs = together
    args = records, which, means[:, None], [0.5, 0.5, 0.4], keys(3), settings
    turned = train_pu(*args, labels=~labels)
    assert (turned.scores == runs.scores).all()
    assert np.allclose(turned.accuracy, 1 - runs.accuracy)


def test_new_records_are_scored_by_the_trained_classifiers(together):
    records, which, _, _, _, runs = together
    raw = score_runs(runs.networks, jnp.asarray(records[:, :50]), jnp.asarray(which))
    assert np.allclose(expit(raw), runs.scores[:, :50], atol=1e-5)
    assert np.allclose(logits(runs.network(2), jnp.asarray(records[1, :50])), raw[2], atol=1e-5)


def test_nnpu_keeps_the_share_that_upu_loses():
    # Noise takes the mean away from all records, of which there are fewer than features.
    x, positive = blobs(100, features=150, gap=0.1)
    noise = np.random.default_rng(1).laplace(0.0, 0.5, 150)
    mean = (x[positive].mean(axis=0) + noise)[None, None]
    settings = {"batch": 100, "epochs": 400, "learning_rate": 0.3, "classifier": "3lp-20"}
    settings |= {"activation": "relu", "dropout": 0.0}
    plain = train_pu(x[None], [0], mean, 0.5, keys(1), PUSettings(**settings, non_negative=False))
    non_negative = train_pu(x[None], [0], mean, 0.5, keys(1), PUSettings(**settings))
    assert plain.outcomes == ("degenerate",)
    assert plain.labels.mean() == 0
    assert 0.2 < non_negative.labels.mean() < 0.8
    with pytest.raises(AttackFailed, match="uPU took all 100 records for negative"):
        UPU(settings=PUSettings(**settings)).fit(x, mean=mean[0, 0], prior=0.5)


def test_a_step_sees_no_more_positives_than_records():
    x, positive = blobs(60)
    known = x[positive]
    settings = PUSettings(epochs=1, batch=20, learning_rate=0.5, non_negative=False)
    start = settings.network(4, jax.random.fold_in(keys(1)[0], ASIDE))
    run = jax.random.fold_in(keys(1)[0], 0)
    order = shuffle_rows(jax.random.fold_in(run, ASIDE), 60, 60)
    network = start
    for step in range(3):
        rows = jnp.asarray(x)[order[20 * step : 20 * step + 20]]
        aside = jax.random.fold_in(jax.random.fold_in(run, step), ASIDE)
        chosen = jax.random.choice(aside, jnp.asarray(known), (20,), replace=False)

        def risk(network, chosen=chosen, rows=rows):
            return pu_risk(logits(network, chosen), logits(network, rows), 0.5)

        network = jax.tree.map(lambda w, slope: w - 0.5 * slope, network, jax.grad(risk)(network))
    runs = train_pu(x[None], [0], known[None], 0.5, keys(1), settings)
    assert np.allclose(runs.network(0).weights[0], network.weights[0], atol=1e-5)


@dataclass(frozen=True)
class Dice(AbstractTraining):
    """A training whose risk is the bias times a random number."""

    def most_steps(self, steps):
        return 2 * steps

    def risk(self, network, inputs, observed, step):
        return network.biases[-1][0] * jax.random.uniform(step.key)


def test_every_step_of_every_run_has_its_own_key():
    x, _ = blobs(12)
    runs = train_classifiers(Dice(batch=4, learning_rate=1.0), x[None], [0, 0], keys(2))
    for k in range(2):
        drawn = [
            jax.random.uniform(jax.random.fold_in(jax.random.fold_in(keys(2)[k], number), step))
            for number in range(2)
            for step in range(3)
        ]
        assert float(runs.network(k).biases[0][0]) == pytest.approx(-float(sum(drawn)), abs=1e-5)


@pytest.mark.parametrize("known", [30, 150])
def test_labelled_positives_in_place_of_a_mean(known):
    x, positive = blobs()
    rows = x[positive][:known]
    runs = train_pu(x[None], [0], rows[None], 0.5, keys(1), PUSettings(**FAST))
    assert (runs.labels[0] == positive).mean() > 0.95


def test_a_batch_is_never_larger_than_the_records():
    x, positive = blobs(30)
    settings = PUSettings(batch=500, epochs=100, learning_rate=0.1)
    runs = train_pu(x[None], [0], x[positive].mean(axis=0)[None, None], 0.5, keys(1), settings)
    assert (runs.labels[0] == positive).mean() > 0.9


def test_progress_is_told():
    x, positive = blobs()
    reports = []
    train_pu(
        x[None],
        [0],
        x[positive].mean(axis=0)[None, None],
        0.5,
        keys(1),
        PUSettings(**FAST, curve_every=100),
        progress=lambda done, most: reports.append((done, most)),
    )
    assert reports == [(100, 160), (160, 160)]


@pytest.mark.parametrize(
    ("which", "prior", "count", "words"),
    [
        ([2], 0.5, 1, "which must name sets from 0 to 0"),
        ([-1], 0.5, 1, "which must name sets"),
        ([0, 0], 0.5, 1, "one entry a run, got 2, 1 and 1"),
        ([], 0.5, 0, "one entry a run, got 0, 1 and 0"),
        ([0], 1.0, 1, "prior must be"),
    ],
)
def test_runs_that_do_not_fit_together_are_refused(which, prior, count, words):
    x, _ = blobs()
    with pytest.raises((DataError, SettingError), match=words):
        train_pu(x[None], which, x[None, :1], prior, keys(count), PUSettings(**FAST))
