"""Code inversion and attribute inference, at both ends."""

import numpy as np
import pytest

from cofill.attack import DecoderSettings, infer_attribute, invert_codes
from cofill.attack._decoders import decode_held_out, pairs_in
from cofill.errors import DataError, SettingError
from cofill.nets import FusionSettings

LINEAR = DecoderSettings(repeats=2, draws=300, fusion=FusionSettings(hidden=()))
SMALL = DecoderSettings(
    repeats=1,
    folds=2,
    draws=100,
    fusion=FusionSettings(
        hidden=(32,), weight_decays=(0.03,), members=1, fold_members=1, folds=2, steps=600
    ),
)


def people(n=200, d=4, seed=0):
    mix = np.random.default_rng(99).normal(size=(d, d))
    return np.random.default_rng(seed).normal(size=(n, d)) @ mix + 3


def test_identity_codes_give_everything_away():
    x = people()
    leaks = invert_codes(x, x, pairs=(20, "all"), settings=LINEAR)
    assert [leak.figure for leak in leaks] == ["R²", "share re-identified"] * 2
    for leak in leaks:
        assert leak.attack > 0.98
        assert leak.excludes_floor()
        assert leak.scope == "individual"
    assert leaks[0].sizes == {"people": 200, "pairs": 20, "repeats": 2}
    assert len(leaks[0].details["per_feature"]) == 4
    assert leaks[0].details["median"] > 0.98


@pytest.mark.parametrize("pairs", [10, 100, "all"])
def test_random_codes_give_nothing_away(pairs):
    x = people()
    codes = np.random.default_rng(5).normal(size=(200, 6))
    for leak in invert_codes(codes, x, pairs=(pairs,), settings=LINEAR):
        assert not leak.excludes_floor()
        assert leak.attack < leak.floor + 0.05


def test_noise_hides_and_more_pairs_find_more():
    x = people()
    noise = np.random.default_rng(1).normal(size=x.shape)
    attacks = [
        invert_codes(x + scale * noise, x, pairs=(100,), settings=LINEAR)[0].attack
        for scale in (0.0, 1.0, 100.0)
    ]
    assert attacks[0] > attacks[1] > 0.3
    assert attacks[2] < 0.05
    wide = np.random.default_rng(2).normal(size=(4, 30))
    codes = x @ wide + 0.5 * np.random.default_rng(3).normal(size=(200, 30))
    few, many = (invert_codes(codes, x, pairs=(m,), settings=LINEAR)[0].attack for m in (5, 100))
    assert many > few + 0.02


def test_networks_invert_what_no_line_can():
    angle = np.random.default_rng(0).uniform(-1, 1, size=(300, 1)) * np.pi
    rows = np.hstack([np.cos(angle), np.sin(2 * angle)])
    linear = invert_codes(angle, rows, pairs=("all",), settings=LINEAR)[0]
    network = invert_codes(angle, rows, pairs=("all",), settings=SMALL)[0]
    assert linear.attack < 0.4
    assert network.attack > linear.attack + 0.3


def test_what_the_attacker_knows_anyway_is_the_control():
    x = people()
    known = x[:, :2]
    leak, _ = invert_codes(x, x, pairs=(50,), known=known, settings=LINEAR)
    assert leak.attack > 0.98
    assert 0.4 < leak.control < 0.95
    assert leak.beats_control()
    useless = np.random.default_rng(3).normal(size=(200, 3))
    leak, _ = invert_codes(useless, x, pairs=(50,), known=known, settings=LINEAR)
    assert leak.excludes_floor()
    assert leak.beats_control() is False


def test_without_pairs_lopsided_clouds_are_laid_over_each_other():
    rng = np.random.default_rng(0)
    hidden = rng.exponential(size=(600, 2)) * [3, 1]
    mix = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.8]])
    x = hidden @ mix
    codes = np.tanh(0.1 * hidden @ np.array([[1.0, 0.4, 0.3], [-0.2, 0.8, 0.5]]))
    leak = invert_codes(codes[:300], x[:300], pairs=(0,), public=x[300:], settings=LINEAR)[0]
    assert leak.attack > 0.5
    assert leak.excludes_floor()
    assert "without pairs" in leak.notes[0]
    noise = rng.normal(size=(300, 3))
    leak = invert_codes(noise, x[:300], pairs=(0,), public=x[300:], settings=LINEAR)[0]
    assert not leak.excludes_floor()


def test_nobody_is_decoded_by_a_decoder_that_saw_them():
    # With codes that name the person, a decoder that saw them would be right.
    codes = np.eye(40)
    rows = np.random.default_rng(0).normal(size=(40, 2))
    (decoded,) = decode_held_out([(codes, "all")], rows, LINEAR)
    assert abs(decoded.guesses).max() < 1
    assert pairs_in("all", 40, 5) == decoded.pairs == 32


def test_a_sample_of_many_people_is_attacked():
    x = people(500)
    few = DecoderSettings(repeats=1, most_people=100, fusion=FusionSettings(hidden=()))
    assert invert_codes(x, x, pairs=(20,), settings=few)[0].sizes["people"] == 100


@pytest.mark.parametrize(
    ("codes", "rows", "more", "what"),
    [
        (np.zeros((0, 2)), people(), {}, "empty"),
        (np.ones((1, 2)), people(1), {}, "10 people"),
        (np.ones((200, 2)), people(), {}, "codes must differ"),
        (people(), np.ones((200, 2)), {}, "rows must differ"),
        (people(199), people(), {}, "199 of codes, 200 of rows"),
        (np.full((200, 2), np.nan), people(), {}, "400 cells"),
        (people(), people(), {"pairs": (190,)}, "too many"),
        (people(), people(), {"pairs": (1,)}, "2 or more"),
        (people(), people(), {"pairs": ()}, "at least one"),
        (people(), people(), {"pairs": (0,)}, "public"),
        (people(), people(), {"pairs": (0,), "public": people(d=3)}, "4 columns"),
    ],
)
def test_bad_input_is_named(codes, rows, more, what):
    with pytest.raises((DataError, SettingError), match=what) as caught:
        invert_codes(codes, rows, **{"settings": LINEAR, **more})
    assert not any(f"{value:.4f}" in str(caught.value) for value in people()[0])


def test_the_same_seed_gives_the_same_leak():
    x = people(60)
    first, second = (invert_codes(x, x, pairs=(20,), settings=LINEAR) for _ in range(2))
    assert [leak.to_dict() for leak in first] == [leak.to_dict() for leak in second]


# --- attributes --------------------------------------------------------------------------------


def test_an_attribute_in_the_codes_is_found_and_beats_the_control():
    x = people()
    ill = x[:, 0] > np.quantile(x[:, 0], 0.7)
    (leak,) = infer_attribute(x, ill, public=x[:, 3:], settings=LINEAR)
    assert leak.figure == "accuracy"
    assert leak.floor == pytest.approx(0.7)
    assert leak.excludes_floor()
    assert leak.beats_control()
    assert leak.ceiling >= leak.attack > 0.85


def test_an_attribute_that_is_not_in_the_codes_is_not_found():
    x = people()
    ill = np.random.default_rng(4).random(200) < 0.4
    for attribute in (ill, ill.astype(float)):
        (leak,) = infer_attribute(x, attribute, settings=LINEAR)
        assert not leak.excludes_floor()
        assert leak.control is None


def test_public_features_alone_are_no_leak_of_the_release():
    x = people()
    useless = np.random.default_rng(1).normal(size=(200, 3))
    (leak,) = infer_attribute(useless, x[:, 1], public=x, pairs=("all",), settings=LINEAR)
    assert leak.figure == "R²"
    assert leak.excludes_floor()
    assert leak.beats_control() is False


def test_classes_may_be_words_and_pairs_few():
    x = people()
    words = np.array(["low", "mid", "high"], dtype=object)[np.digitize(x[:, 0], [2, 4])]
    few, many = infer_attribute(x, words, pairs=(10, "all"), settings=LINEAR)
    assert few.details["classes"] == 3
    assert few.attack < many.attack
    assert "10 people" in few.threat


@pytest.mark.parametrize(
    ("attribute", "what"),
    [
        (np.zeros(200), "attribute must differ"),
        (np.zeros(200, bool), "from 2 to 50 classes, got 1"),
        (np.arange(200), "got 200"),
        (np.zeros((200, 2)), "one value a person"),
        (np.zeros(199), "199 of attribute"),
    ],
)
def test_a_bad_attribute_is_named(attribute, what):
    with pytest.raises(DataError, match=what):
        infer_attribute(people(), attribute, settings=LINEAR)
