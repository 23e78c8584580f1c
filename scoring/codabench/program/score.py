"""Codabench's scoring program: judges what a hider generated, or what a seeker answered.

    python3 score.py INPUT OUTPUT

INPUT holds `ref` (the reference data) and `res` (what the ingestion program kept). OUTPUT gets `scores.json`.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scoring import cli


def main() -> int:
    """Score one submission."""
    cli.quiet_libraries()
    from scoring.codabench.bundle import score

    inputs, output = Path(sys.argv[1]), Path(sys.argv[2])
    scores = score(inputs / "ref", inputs / "res")
    (output / "scores.json").write_text(json.dumps(scores, allow_nan=False) + "\n", encoding="utf-8")
    print(json.dumps(scores))
    return 0


if __name__ == "__main__":
    sys.exit(main())
