"""Seeds, log levels and progress lines under their 2020 names."""

import contextlib
import importlib.util
import logging
import os
import random
import sys
from collections.abc import Iterator

import numpy as np

# 2020's question was "is TensorFlow 1.15 there?"; what old code means by it is "can models be trained?".
tf115_found: bool = importlib.util.find_spec("tensorflow") is not None


def fix_all_random_seeds(random_seed: int) -> None:
    """Seed Python's, NumPy's legacy and, where it is already imported, TensorFlow's global generator."""
    random.seed(random_seed)
    np.random.seed(random_seed)  # noqa: NPY002
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(random_seed)


def legacy_rng() -> np.random.Generator:
    """Return a generator seeded from NumPy's legacy one, for 2020 names whose callers seed only that."""
    return np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002


@contextlib.contextmanager
def temp_seed_numpy(seed: int) -> Iterator[None]:
    """Seed NumPy's legacy generator inside the block; its state before is restored after it."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


@contextlib.contextmanager
def in_progress(stage: str) -> Iterator[None]:
    """Print a line when a stage begins and one when it ends."""
    print(f"{stage}...")
    try:
        yield
    finally:
        print(f"{stage} DONE")


@contextlib.contextmanager
def tf_fixed_seed_seesion(seed: int) -> Iterator[None]:
    """Seed everything inside the block and drop TensorFlow's global state after it (the name is 2020's)."""
    fix_all_random_seeds(seed)
    try:
        yield
    finally:
        if "tensorflow" in sys.modules:
            sys.modules["tensorflow"].keras.backend.clear_session()


def tf_set_log_level(level: int) -> None:
    """Let TensorFlow log from `level` (a level of `logging`) on; best called before it is imported."""
    steps = (logging.WARNING, logging.ERROR, logging.FATAL)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = str(sum(level >= step for step in steps))
    logging.getLogger("tensorflow").setLevel(level)
