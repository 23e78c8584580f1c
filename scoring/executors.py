"""Where pieces of work run: in this process, in processes of this machine, or on a Dask cluster."""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

from utils.errors import UserError

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def local(workers: int) -> Executor:
    """Return an executor on this machine.

    Parameters
    ----------
    workers : int
        With one, the work is done in a thread of this process. With more, in as many processes, each of which gets its
        share of the cores: more threads than cores would slow all of them down.
    """
    if workers == 1:
        return ThreadPoolExecutor(1)
    share = str(max(1, cores() // workers))
    for name in _THREADS:  # a started process inherits these and reads them as it loads its libraries
        os.environ.setdefault(name, share)
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def cluster(address: str) -> Callable[[bool], Executor]:
    """Return a maker of an executor on a Dask cluster. With GPUs, on its workers that have the resource GPU.

    Raises
    ------
    UserError
        If Dask is not installed or no scheduler answers.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise UserError("--scheduler needs Dask: pip install -r requirements-cluster.txt") from error
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise UserError(f"no Dask scheduler answers at {address}; start one with: dask scheduler") from error

    def executor(gpus: bool) -> Executor:
        return client.get_executor(pure=False, retries=2, **({"resources": {"GPU": 1}} if gpus else {}))

    return executor
