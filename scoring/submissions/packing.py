"""Packing a method as a submission zip, and playing what was packed before it is called ready."""

import argparse
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from scoring import cli
from scoring.contract import Role
from scoring.data.datasets import DataSet
from scoring.data.simulate import simulate
from scoring.round import Round, divide_as_2020
from scoring.sandbox import Limits, Outcome, ProcessSandbox
from scoring.sandbox.interface import DEFAULT_IMAGE
from scoring.submissions.players import Player, find_player
from scoring.submissions.submission import HOME, Submission, check_image, package_files, take_in
from utils.data_preprocess import reshape_longitudinal
from utils.errors import UserError
from utils.files import atomic_path

LEFT_OUT = {".csv", ".npz", ".zip", ".pyc", ".log"}  # data and outputs. Trained weights travel as .npy, .h5, ...
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the same content gives the same zip
STAYS, FEATURES, TIME_POINTS, SEED = 24, 8, 24, 0
SMOKE_LIMITS = Limits(seconds=1800)


def pack(player: Player, output: Path, image: str = DEFAULT_IMAGE) -> None:
    """Write a submission zip: `hider.py` or `seeker.py`, `utils/`, `examples/` and `Dockerimage`.

    Parameters
    ----------
    player : Player
        Its source is a `.py` file.
    output : Path
        The zip. It is written whole or not at all, and only after `smoke_match` has played it.
    image : str
        What `Dockerimage` says.

    Raises
    ------
    UserError
        Where the source or image is no such thing, or the smoke match fails.
    """
    if player.source.suffix != ".py":
        raise UserError(f"{player.source} is packed already; name a method or a .py file")
    check_image(image, "--image")
    members: dict[str, bytes] = {f"{player.role}.py": player.source.read_bytes(), "Dockerimage": f"{image}\n".encode()}
    for name, path in package_files():
        if path.suffix not in LEFT_OUT and not path.name.startswith("."):
            members[name] = path.read_bytes()
    with atomic_path(output) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(members):
                info = zipfile.ZipInfo(name, EARLIEST)
                info.external_attr = 0o644 << 16
                archive.writestr(info, members[name], zipfile.ZIP_DEFLATED)
        score = smoke_match(temporary, player.role)
    size = output.stat().st_size / 1024
    print(f"{output}: {len(members)} files, {size:.0f} KiB; smoke match on {STAYS} simulated stays: {score:.2f}; ready")


def smoke_match(packed: Path, role: Role) -> float:
    """Unpack a zip elsewhere and play it against the default other side, on a few simulated stays.

    Returns
    -------
    float
        The re-identification score. On so few stays it says that both sides ran, not how good they are.

    Raises
    ------
    UserError
        Where the zip is refused, or one side fails.
    """
    frame = simulate(STAYS, FEATURES, SEED)
    data, mask = reshape_longitudinal(frame, TIME_POINTS)
    stays = DataSet(data, mask, frame.columns[1:], "simulated stays", "")
    round_ = Round.of(stays, divide_as_2020(stays, SEED, 0.5))
    folder = Path(tempfile.mkdtemp())
    try:
        other: Role = "seeker" if role == "hider" else "hider"
        sides = {
            role: take_in(packed, folder / role, role),
            other: take_in(find_player(other, None, HOME).source, folder / other, other),
        }
        hidden = _play(sides["hider"], round_.hider_input())
        if hidden.outputs.get("rescore"):
            raise UserError("the smoke match failed: the hider asks for data that it has not generated yet")
        generated, generated_mask = hidden.outputs["generated_data"], hidden.outputs["padding_mask"]
        found = _play(sides["seeker"], round_.seeker_input(generated, generated_mask))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return float(np.mean(found.outputs["labels"] == round_.truth))


def _play(side: Submission, input_dict: dict[str, Any]) -> Outcome:
    arrays = {name: value for name, value in input_dict.items() if name != "seed"}
    outcome = ProcessSandbox().run(side.folder, side.role, arrays, input_dict["seed"], SMOKE_LIMITS)
    if outcome.status != "ok":
        print(outcome.submitter_log, file=sys.stderr, end="")
        raise UserError(f"the smoke match failed: the {side.role} {outcome.explained}; no zip was written")
    return outcome


def main() -> int:
    """Parse the command line of make_hider.sh and make_seeker.sh."""
    parser = cli.Parser(prog="make_hider.sh or make_seeker.sh", description="Pack a submission.")
    parser.add_argument("role", choices=("hider", "seeker"), help=argparse.SUPPRESS)
    parser.add_argument("name", nargs="?", help="such as addnoise, or a .py file; ./hider.py or ./seeker.py without")
    parser.add_argument("output", nargs="?", type=Path, help="the zip; <role>_<name>.zip without")
    parser.add_argument("--image", default=DEFAULT_IMAGE, help="the Docker image to run it in (default: %(default)s)")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    cli.quiet_libraries()

    def command() -> None:
        role: Role = arguments.role
        if arguments.name is None and not (HOME / f"{role}.py").is_file():
            raise UserError(f"there is no {role}.py to pack; name a method, such as ./make_{role}.sh {_known(role)[0]}")
        player = find_player(role, arguments.name, HOME)
        default = Path(
            f"{role}.zip" if arguments.name is None else f"{role}_{player.name.removeprefix(role + '_')}.zip"
        )
        pack(player, arguments.output or default, arguments.image)

    return cli.run(command, debug=arguments.debug)


def _known(role: Role) -> list[str]:
    return sorted(file.stem.removeprefix(f"{role}_") for file in HOME.glob(f"{role}_*.py")) or ["<name>"]


if __name__ == "__main__":
    sys.exit(main())
