"""Networks on grids: against XLA's convolutions, their shapes, and layouts there and back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from cofill.errors import SettingError
from cofill.nets import GridNet, Layout, gather_neighbours, layout_of


def conv(layer, grids, deep):
    """XLA's 3 × 3 convolution with the same numbers."""
    kernel = layer["w"].reshape(3, 3, deep, -1)
    output = lax.conv_general_dilated(
        grids, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return output + layer["b"]


def some(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (1, 1, 1, 2), (3, 2, 7, 1)])
def test_a_product_of_neighbours_is_a_convolution(shape):
    deep = shape[-1]
    layer = {"w": some(9 * deep, 4), "b": some(4, seed=1)}
    grids = some(*shape, seed=2)
    expected = conv(layer, grids, deep)
    near = jax.jit(gather_neighbours)(grids)
    assert near.shape == (*shape[:3], 9 * deep)
    np.testing.assert_allclose(near @ layer["w"] + layer["b"], expected, atol=1e-5)


def test_a_grid_network_is_a_chain_of_convolutions():
    net = GridNet((4, 3), 2, 5, width=3, blocks=2)
    params = jax.jit(net.init)(jax.random.key(0))
    grids = some(2, 4, 3, 2)
    relu = jax.nn.relu
    hidden = conv(params["stem"], grids, 2)
    for k in range(2):
        block = params[f"block{k}"]
        moved = relu(conv(block["near"], relu(hidden), 3))
        hidden = hidden + moved @ block["same"]["w"] + block["same"]["b"]
    expected = conv(params["head"], jnp.concatenate([relu(hidden), grids], axis=-1), 5)
    np.testing.assert_allclose(jax.jit(net)(params, grids), expected, atol=1e-5)


def test_one_place_is_a_perceptron_without_neighbours():
    net = GridNet((1, 1), 4, 2, width=3, blocks=0, skip=False)
    params = jax.jit(net.init)(jax.random.key(0))
    rows = some(5, 4)
    hidden = jax.nn.relu(rows @ params["stem"]["w"] + params["stem"]["b"])
    expected = hidden @ params["head"]["w"] + params["head"]["b"]
    np.testing.assert_allclose(net(params, rows[:, None, None])[:, 0, 0], expected, atol=1e-6)


def count(params) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("grid", [(1, 1), (7, 7)])
def test_numbers_of_parameters(grid, skip):
    inside, out, width, blocks = 5, 4, 6, 2
    taps = 1 if grid == (1, 1) else 9
    net = GridNet(grid, inside, out, width, blocks, skip=skip)
    stem = taps * inside * width + width
    block = taps * width * width + width + width * width + width
    head = taps * (width + inside * skip) * out + out
    assert count(jax.eval_shape(net.init, jax.random.key(0))) == stem + blocks * block + head


@given(
    grid=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    patch=st.integers(1, 4),
    channels=st.integers(1, 3),
    n=st.integers(1, 3),
)
@settings(max_examples=12)
def test_rows_laid_on_a_grid_come_back(grid, patch, channels, n):
    layout = Layout(grid[0] * patch, grid[1] * patch, channels, patch)
    rows = np.arange(n * layout.size, dtype=np.float32).reshape(n, -1)
    laid, back = jax.jit(lambda r: (layout.to_grids(r), layout.to_rows(layout.to_grids(r))))(rows)
    laid = np.asarray(laid)
    assert laid.shape == (n, *grid, layout.depth)
    np.testing.assert_array_equal(back, rows)
    # A place holds its patch of the image, row by row.
    image = rows.reshape(n, layout.height, layout.width, channels)
    i, j = grid[0] - 1, grid[1] - 1
    cut = image[:, i * patch : (i + 1) * patch, j * patch : (j + 1) * patch]
    np.testing.assert_array_equal(laid[:, i, j], cut.reshape(n, -1))


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((28, 28), 784, Layout(28, 28, 1, 4)),
        ((8, 8), 64, Layout(8, 8, 1, 2)),
        ((9, 9), 81, Layout(9, 9, 1, 1)),
        ((15, 15), 225, Layout(15, 15, 1, 3)),
        ((12, 13), 156, Layout(12, 13, 1, 1)),
        ((32, 32, 3), 3072, Layout(32, 32, 3, 4)),
        ((2, 8), 16, Layout(1, 1, 16)),
        ((8, 8), 63, Layout(1, 1, 63)),
        (None, 5, Layout(1, 1, 5)),
    ],
)
def test_layouts_of_views(shape, size, expected):
    assert layout_of(shape, size) == expected


def test_bad_settings_are_named():
    for make, words in (
        (lambda: Layout(8, 6, 1, 4), "patch must divide 8 and 6, got 4"),
        (lambda: Layout(0, 6), "height must be at least 1, got 0"),
        (lambda: GridNet((2, 2), 0, 3), "depth_in must be at least 1, got 0"),
        (lambda: GridNet((2, 2), 3, 3, blocks=-1), "blocks must be at least 0, got -1"),
        (lambda: GridNet((0, 2), 3, 3), "grid must have at least one row and column"),
    ):
        with pytest.raises(SettingError, match=words):
            make()
