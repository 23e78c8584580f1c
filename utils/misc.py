"""Seeds, log levels, progress lines and redacted exceptions under their 2020 names."""

import contextlib
import importlib.util
import json
import logging
import multiprocessing
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

# 2020's question was "is TensorFlow 1.15 there?". What old code means by it is "can models be trained?".
tf115_found: bool = importlib.util.find_spec("tensorflow") is not None
tfdeterminism_found: bool = importlib.util.find_spec("tfdeterminism") is not None

_OUT_OF_TIME = "Solution terminated due to running in excess of time limit."  # 2020's words, which scripts may look for


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
    """Seed NumPy's legacy generator inside the block. Its state before is restored after it."""
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
    """Let TensorFlow log from `level` (a level of `logging`) on. Best called before it is imported."""
    steps = (logging.WARNING, logging.ERROR, logging.FATAL)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = str(sum(level >= step for step in steps))
    logging.getLogger("tensorflow").setLevel(level)


def read_competition_config(config_path: str | Path) -> dict[str, Any]:
    """Return the JSON object in `config_path`, or an empty one if there is no such file."""
    path = Path(config_path)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def redact_exception(ex: BaseException) -> str:
    """Return an exception's traceback without its message, which could hold patients' values."""
    lines = ["Traceback (most recent call last):\n"]
    for frame in traceback.extract_tb(ex.__traceback__):
        lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n    {frame.line}\n')
    return "".join([*lines, f"{type(ex).__name__}: [MESSAGE REDACTED]"])


@contextlib.contextmanager
def dump_redacted_exc(dump_path: str | Path) -> Iterator[None]:
    """Write an exception of the block to `dump_path`, redacted, and raise it again. An older file there is removed."""
    path = Path(dump_path)
    path.unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        path.write_text(redact_exception(error), encoding="utf-8")
        raise


def time_limited(func: Callable[..., Any], time_s: float, exc_dump_path: str | Path, *args: Any, **kwargs: Any) -> None:
    """Run `func` in a process of its own and end it after `time_s` seconds.

    Parameters
    ----------
    func : callable
        Its return value is lost.
    time_s : float
        Seconds.
    exc_dump_path : str or Path
        Gets one line that says so if the time was not enough.
    """
    process = multiprocessing.Process(target=func, args=args, kwargs=kwargs)
    process.start()
    process.join(time_s)
    if process.is_alive():
        process.terminate()
        process.join()
        print(_OUT_OF_TIME)
        Path(exc_dump_path).write_text(f"RuntimeError: {_OUT_OF_TIME}", encoding="utf-8")
