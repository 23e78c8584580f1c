"""Small simulated data and ways to run a match in-process, shared by the tests."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

# One thread for each worker of pytest-xdist: more of them would compete for the same cores.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(_threads, "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker, so that what its fixtures train is trained once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def make_stays(
    rng: np.random.Generator, stays: int = 12, time_points: int = 8, features: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """Stays of different lengths with missing values: data [N, T, F] and its padding mask."""
    lengths = rng.integers(1, time_points + 1, stays)
    padded = np.arange(time_points) < (time_points - lengths)[:, None]
    data = rng.normal(50, 10, (stays, time_points, features))
    data[rng.random(data.shape) < 0.4] = np.nan
    data[:, :, 0] = np.cumsum(rng.random((stays, time_points)), axis=1) + 3
    mask = np.repeat(padded[:, :, None], features, axis=2)
    data[mask] = -1.0
    return data, mask


def write_csv(path: Path, rng: np.random.Generator, stays: int = 12, features: int = 5, first_id: int = 100) -> Path:
    """A longitudinal CSV of `stays` stays with 2 to 6 rows each and a few missing values."""
    lines = ["admissionid,time," + ",".join(f"f{i}" for i in range(1, features + 1))]
    for stay in range(first_id, first_id + stays):
        for hour in range(int(rng.integers(2, 7))):
            values = ["" if rng.random() < 0.3 else f"{value:.3f}" for value in rng.normal(50, 10, features)]
            lines.append(f"{stay},{hour + rng.random():.3f}," + ",".join(values))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def csv(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_csv(tmp_path / "stays.csv", rng)


@pytest.fixture
def run_tournament(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run tournament.py's command line in this process; returns (exit code, stdout, stderr)."""
    import tournament

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tournament.py", *map(str, arguments)])
        monkeypatch.chdir(tmp_path)
        try:
            code = tournament.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def run_main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run main.py's command line in this process; returns (exit code, stdout, stderr)."""
    import main

    def run(*arguments: object, home: Path | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["main.py", *map(str, arguments)])
        monkeypatch.setattr(main, "HOME", home or ROOT)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.chdir(tmp_path)
        try:
            code = main.main()
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
