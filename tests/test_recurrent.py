"""The recurrent kernels whose gradients are written out by hand."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="the kernels are TensorFlow's")

from utils.recurrent import Network, apply  # noqa: E402


@pytest.mark.parametrize("module", ["gru", "lstm"])
@pytest.mark.parametrize("of", ["weights", "series"])
def test_gradients_are_the_slopes_of_the_function(rng, module, of):
    network = Network(3, 4, 2, 2, module)
    values = {"weights": network.first_weights(rng), "series": rng.random((5, 3, 6)).astype(np.float32)}
    weigh = tf.constant(rng.normal(size=(5, 2, 6)), tf.float32)

    def function(change=0.0):
        moved = values | {of: tf.constant(values[of] + change, tf.float32)}
        with tf.GradientTape() as tape:
            tape.watch(moved[of])
            result = tf.reduce_sum(weigh * apply(network, moved["weights"], moved["series"]))
        return float(result), tape.gradient(result, moved[of]).numpy()

    gradient = function()[1]
    for _ in range(5):
        direction = rng.normal(size=values[of].shape)
        ahead, behind = (function(sign * 1e-2 * direction)[0] for sign in (1, -1))
        assert (ahead - behind) / 2e-2 == pytest.approx(np.sum(gradient * direction), rel=0.02, abs=0.01)
