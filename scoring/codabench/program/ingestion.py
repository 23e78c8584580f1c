"""Codabench's ingestion program: runs a submission on every input and keeps what it returns. NumPy is all it needs.

    python3 ingestion.py INPUT_DATA OUTPUT PROGRAM SUBMISSION

Each folder of INPUT_DATA is one run (`request.json`, `.npy` files). OUTPUT gets `<run>.npz`, or `<run>.failed`.
"""

import os
import shutil
import subprocess
import sys
import tempfile

PHASE = {"hider": "this phase takes hiders", "seeker": "this phase takes seekers"}


def main(inputs: str, output: str, program: str, submission: str) -> int:
    """Run the submission on every input; returns the exit code."""
    for run in sorted(os.listdir(inputs)):
        if not os.path.isdir(os.path.join(inputs, run)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name in ("output.npz", "error.json"):
                open(os.path.join(folder, name), "wb").close()
            command = [
                sys.executable,
                os.path.join(program, "runner.py"),
                submission,
                os.path.join(inputs, run),
                folder,
            ]
            # Its text could carry data: none of it reaches Codabench's logs.
            ended = subprocess.run(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            )
            if ended.returncode == 0:
                shutil.copyfile(os.path.join(folder, "output.npz"), os.path.join(output, run + ".npz"))
            else:
                with open(os.path.join(output, run + ".failed"), "w") as file:
                    file.write(str(ended.returncode))
            print("{}: exit code {}".format(run, ended.returncode))  # noqa: UP032 (2020's Python)
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(os.path.abspath, sys.argv[1:5])))
