"""The one file of ours that runs beside a submission, inside its sandbox. Python 3.6 and NumPy are all it needs.

Called as `python runner.py SUBMISSION IN OUT`. IN holds `request.json` and one `.npy` file per input array. OUT holds
two files, made by the host: `output.npz`, with room for what the submission returned, and `error.json` for where it
failed. They are filled in place: OUT itself takes no other file, so what a submission can write is bounded. The host
reads them after this process has ended and believes nothing in them.

Exit codes: 0 the output is written, 1 an exception, 3 out of memory, 4 out of room for its files, 5 an output of no
form that the contract knows.
"""

import errno
import importlib
import json
import os
import random
import sys
import traceback
from typing import Any

import numpy as np

EXCEPTION, MEMORY, FULL, FORM = 1, 3, 4, 5
MAX_CHAIN = 5


def main(submission: str, inputs: str, outputs: str) -> int:
    """Run the submission and return the exit code."""
    with open(os.path.join(inputs, "request.json")) as file:
        request = json.load(file)
    os.chdir(submission)
    sys.path[0] = submission
    try:
        returned = play(request, inputs)
        arrays = pack_hider(returned) if request["role"] == "hider" else pack_seeker(returned)
        if arrays is None:
            return FORM
    except BaseException as error:
        with open(os.path.join(outputs, "error.json"), "w") as file:
            json.dump(describe(error, submission), file)
        code = exit_code(error)
        print_traceback(error)
        return code
    try:
        with open(os.path.join(outputs, "output.npz"), "r+b") as file:
            np.savez(file, **arrays)
            file.truncate()  # of the room that the host took for it
    except OSError:
        return FULL
    return 0


def play(request: dict, inputs: str) -> Any:
    """Import the submission and call it on the contract's input_dict."""
    input_dict = {"seed": request["seed"]}
    for name in request["arrays"]:
        # Mapped copy-on-write: only what is touched costs memory, and the submission may change its input in place.
        mapped = np.load(os.path.join(inputs, name + ".npy"), mmap_mode="c", allow_pickle=False)
        input_dict[name] = mapped.view(np.ndarray)
    for name in request["absent"]:
        input_dict[name] = None
    module = importlib.import_module(request["role"])
    arguments = [input_dict]
    if request["parameters"]:
        from utils.parameters import parse_parameters  # the submission's own copy

        arguments.append(parse_parameters(module, request["parameters"]))
    # As in 2020, the global generators are seeded for a submission that draws from them.
    random.seed(request["seed"])
    np.random.seed(request["seed"] % 2**32)  # noqa: NPY002
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        set_seed = getattr(tensorflow.random, "set_seed", None) or tensorflow.random.set_random_seed
        set_seed(request["seed"])
    return getattr(module, request["role"])(*arguments)


def pack_hider(returned: Any) -> "dict | None":
    """Turn what a hider returned into named arrays; None where it has no form that the contract knows."""
    if isinstance(returned, str):
        return {"rescore": np.array(True)} if returned in ("rescore", "reevaluate") else None
    parts = returned if isinstance(returned, tuple) else (returned,)
    if len(parts) == 2 and is_integer(parts[1]):
        parts = (parts[0], None, parts[1])
    if not 1 <= len(parts) <= 3:
        return None
    generated, mask, eval_seeds = (*parts, None, None)[:3]
    arrays = {"generated_data": numbers(generated)}
    if mask is not None:
        arrays["padding_mask"] = numbers(mask)
    if eval_seeds is not None:
        if not is_integer(eval_seeds):
            return None
        arrays["eval_seeds"] = np.array(int(eval_seeds), dtype=np.int64)
    return None if any(array is None for array in arrays.values()) else arrays


def pack_seeker(returned: Any) -> "dict | None":
    """Turn what a seeker returned, labels or (labels, scores), into named arrays; None where it is neither."""
    pair = isinstance(returned, tuple) and len(returned) == 2
    labels, scores = returned if pair else (returned, None)
    arrays = {"labels": numbers(labels)}
    if scores is not None:
        arrays["scores"] = numbers(scores)
    return None if any(array is None for array in arrays.values()) else arrays


def is_integer(value: Any) -> bool:
    """Tell whether a value is one whole number."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def numbers(value: Any) -> "np.ndarray | None":
    """Give a value as an array of plain numbers, or None where it is not one: an object array would need a pickle."""
    array = np.asarray(value)
    return array if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 else None


def print_traceback(error: BaseException) -> None:
    """Print the whole traceback for the organiser, who owns the data. It goes where all goes that the run prints."""
    try:
        traceback.print_exception(type(error), error, error.__traceback__)
    except BaseException:  # the exception is the submission's own code
        sys.stderr.write(type(error).__name__ + "\n")


def exit_code(error: BaseException) -> int:
    """Tell running out of memory or of room for files from any other exception."""
    for link in chain(error):
        if isinstance(link, MemoryError):
            return MEMORY
        if isinstance(link, OSError) and link.errno in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT):
            return FULL
    return EXCEPTION


def chain(error: "BaseException | None") -> list:
    """List an exception and those that it came from, the newest first."""
    links = []  # type: list
    while error is not None and len(links) < MAX_CHAIN:
        links.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return links


def describe(error: BaseException, submission: str) -> dict:
    """Say which of its own lines raised which exception, without its message: the data could leak through that.

    The host looks the line up in the submission's own files.
    """
    frames = []  # type: list
    step = error.__traceback__
    while step is not None:
        frames.append([step.tb_frame.f_code.co_filename, step.tb_lineno])
        step = step.tb_next
    if isinstance(error, SyntaxError):
        frames.append([error.filename or "", error.lineno or 0])
    own = [frame for frame in frames if os.path.abspath(frame[0]).startswith(submission + os.sep)]
    line = [os.path.relpath(own[-1][0], submission), own[-1][1]] if own else None
    return {"class": type(error).__name__, "line": line}


if __name__ == "__main__":
    code = main(*(os.path.abspath(argument) for argument in sys.argv[1:]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a submission's threads and exit handlers keep nobody waiting
