"""What a network sees of each row while it trains."""

import jax
import jax.numpy as jnp
import numpy as np

from cofill.nets import MLP, SquaredError
from cofill.nets._losses import GroupDropout, Grouped

GROUPS = ((0, 2), (2, 3), (3, 6))
GROUP_OF = [0, 0, 1, 2, 2, 2]
KEY = jax.random.key(3)
LOSS = GroupDropout(SquaredError(), GROUPS)
# One table of choices a row; a choice that stands there three times is drawn three times as often.
CHOICES = np.array(
    [
        [[1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]],
        [[1, 1, 1], [0, 1, 0], [0, 0, 1], [1, 0, 1]],
        [[0, 0, 1]] * 4,
    ],
    bool,
)


def rows_of(times):
    columns = np.random.default_rng(0).uniform(1, 2, size=(3 * times, 6)).astype(np.float32)
    return Grouped(columns, np.tile(CHOICES, (times, 1, 1)))


def shown_groups(thin, rows):
    """Return which groups are shown, having checked that each is shown whole and as it is."""
    thin = np.asarray(thin)
    shown = thin != 0
    np.testing.assert_array_equal(thin[shown], rows.columns[shown])
    by_group = shown[:, [a for a, _ in GROUPS]]
    np.testing.assert_array_equal(by_group[:, GROUP_OF], shown)
    return by_group


def test_a_row_is_shown_with_one_of_its_patterns_in_their_shares():
    rows = rows_of(400)
    shown = shown_groups(LOSS.thin(KEY, rows), rows)
    for k, choices in enumerate(CHOICES):
        wanted = {}
        for choice in map(tuple, choices.tolist()):
            wanted[choice] = wanted.get(choice, 0) + 1 / len(choices)
        seen, counts = np.unique(shown[k::3], axis=0, return_counts=True)
        shown_patterns = dict(zip(map(tuple, seen.tolist()), counts / counts.sum(), strict=True))
        assert set(shown_patterns) == set(wanted)
        for choice, share in wanted.items():
            # Four standard errors of a share of 400 draws.
            assert abs(shown_patterns[choice] - share) < 4 * np.sqrt(0.25 / 400)


def test_each_step_draws_anew():
    rows = rows_of(400)
    one, same, other = (np.asarray(LOSS.thin(jax.random.key(k), rows)) for k in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_a_rows_draw_does_not_depend_on_the_rows_behind_it():
    cut = 7
    rows = rows_of(400)
    first = Grouped(rows.columns[:cut], rows.patterns[:cut])
    np.testing.assert_array_equal(LOSS.thin(KEY, first), LOSS.thin(KEY, rows)[:cut])


def test_validation_rows_are_shown_whole_and_training_rows_are_not():
    rows = rows_of(400)
    seen = []

    def loss(network, columns, targets, key):
        seen.append((np.asarray(columns), key))
        return SquaredError()(network, columns, targets, None)

    network = MLP((6, 1), key=KEY)
    targets = jnp.zeros((1200, 1))
    watched = GroupDropout(loss, GROUPS)
    whole = watched(network, rows, targets, None)
    thinned = watched(network, rows, targets, KEY)
    np.testing.assert_array_equal(seen[0][0], rows.columns)
    assert seen[0][1] is None
    assert not shown_groups(seen[1][0], rows).all()
    # The key that drew the patterns is not used again inside.
    assert (jax.random.key_data(seen[1][1]) != jax.random.key_data(KEY)).any()
    plain = SquaredError()(network, rows.columns, targets, None)
    np.testing.assert_array_equal(np.asarray(whole), np.asarray(plain))
    assert (np.asarray(thinned) != np.asarray(plain)).any()
