"""Time and memory of reading a long hospital table.

    python benchmarks/long_table.py --rows 10000000 [--to csv|parquet]

Writes a made-up table (patient, stay, ISO time, item, value) to a temporary folder, nine of ten measurements on the
hour, converts it in a process of its own with `prepare_data.py table`, and prints seconds and peak memory.
On 2 shared cores, beside other work: 28.4 s, 2.50 GiB for 10 million rows (478 MiB).
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars

ROOT = Path(__file__).resolve().parent.parent
_ITEMS = 60
_ROWS_OF_A_STAY = 2_000


def write_long_table(path: Path, rows: int, rng: np.random.Generator) -> None:
    """Write `rows` measurements of stays of about 2,000 measurements each."""
    stays = rng.integers(30_000_000, 30_000_000 + max(2, rows // _ROWS_OF_A_STAY), rows)
    minutes = 60 * rng.integers(0, 48, rows) + np.where(rng.random(rows) < 0.9, 0, rng.integers(0, 60, rows))
    polars.DataFrame(
        {
            "subject_id": stays // 2,
            "stay_id": stays,
            "charttime": np.datetime64("2150-01-01T00:00", "us") + minutes.astype("timedelta64[m]"),
            "itemid": 220_000 + rng.zipf(1.3, rows) % _ITEMS,
            "valuenum": rng.normal(80, 20, rows).round(1),
        }
    ).write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S")


def main() -> None:
    """Write, convert, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--to", choices=("csv", "parquet"), default="csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "events.csv", Path(folder) / f"stays.{arguments.to}"
        write_long_table(source, arguments.rows, np.random.default_rng(0))
        began = time.perf_counter()
        command = [sys.executable, ROOT / "prepare_data.py", "table", source, "--like", "mimic-iv", "-o", output]
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        size = source.stat().st_size / 2**20
        print(f"{arguments.rows:,} rows ({size:.0f} MiB): {seconds:.1f} s, peak {peak:.2f} GiB")


if __name__ == "__main__":
    main()
