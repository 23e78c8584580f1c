#!/usr/bin/env bash
# Packs a hider as a submission zip: ./make_hider.sh [NAME or FILE.py] [OUTPUT.zip] [--image IMAGE]
set -euo pipefail
home=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$home/.venv/bin/python
[ -x "$python" ] || python=python3
PYTHONPATH=$home exec "${PYTHON:-$python}" -m scoring.submissions.packing hider "$@"
