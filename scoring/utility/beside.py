"""What is shown beside kept utility and is no part of the headline: could you tell, and do conclusions carry over."""

from typing import Any

import numpy as np

from scoring.utility.conclusions import conclusions
from scoring.utility.indistinguishable import Encoder, context_fid, real_or_generated
from scoring.utility.observed import Observed, Stays, independent_columns
from scoring.utility.tasks import Plan


class Beside:
    """The two halves of the others looked at once. Then any number of releases."""

    def __init__(self, halves: list[Stays], plan: Plan, rng: np.random.Generator) -> None:
        self._plan = plan
        self._real = [Observed.of(half) for half in halves]
        self._torn = [Observed.of(independent_columns(half, rng)) for half in halves]
        self._encoder = Encoder.of(plan.clipped(self._real[0]), plan, int(rng.integers(2**31)))
        codes = [self._encoder.encode(plan.clipped(half)) for half in self._real]
        self._codes = codes
        self._ceiling = context_fid(*codes)
        self._floor = context_fid(codes[0], self._encoder.encode(plan.clipped(self._torn[1])))

    def judge(self, lessons: list[Observed], rng: np.random.Generator) -> dict[str, Any]:
        """Look at a release. `lessons` are two samples of it, each as large as a half where there are so many."""
        plan = self._plan
        codes = [self._encoder.encode(plan.clipped(lesson)) for lesson in lessons]
        distances = [context_fid(real, code) for real, code in zip(self._codes, codes, strict=True)]
        return {
            "real_or_generated": real_or_generated(self._real[0], lessons[0], plan, rng),
            "context_fid": {
                "release": float(np.mean(distances)),
                "other_real_stays": self._ceiling,
                "independent_columns": self._floor,
            },
            "conclusions": conclusions(self._real, lessons, self._torn, plan),
        }
