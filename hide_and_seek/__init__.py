"""Hide-and-Seek from Python and from one command.

The project's files are flat, as the 2020 challenge had them, and some have names that many packages use (`utils`,
`examples`). An installed copy therefore keeps all of them in `hide_and_seek/home/`, which is no package: the folder is
put first on `sys.path` when this package is imported, and no other program ever sees those names.
"""

import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
HOME = _HERE / "home" if (_HERE / "home").is_dir() else _HERE.parent
if str(HOME) not in sys.path:
    sys.path.insert(0, str(HOME))

from scoring import __version__  # noqa: E402

__all__ = ["HOME", "__version__", "audit", "play"]


def play(hider: Any, seeker: Any, data: Any, **settings: Any) -> Any:
    """Play a match; see `scoring.api.play`."""
    from scoring.api import play as run

    return run(hider, seeker, data, home=HOME, **settings)


def audit(members: Any, others: Any, synthetic: Any, **options: Any) -> Any:
    """Audit a release; see `scoring.audit.command.audit`."""
    from scoring.audit.command import audit as run

    return run(members, others, synthetic, home=HOME, **options)
