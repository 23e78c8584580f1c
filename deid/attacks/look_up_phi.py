"""Look-up of one PHI token: the attacker knows the rest of the sentence and compares what was sent with candidates."""

import numpy as np
import tensorflow as tf

from deid.attacks.fitting import Sender
from deid.attacks.look_up_sentences import TABLE_DRAWS
from deid.attacks.rates import Result, rate
from deid.encoding import Encoded

CANDIDATES = 199  # beside the true token
MOST_SENTENCES = 1000


def look_up_phi(send: Sender, targets: Encoded, seed: int) -> Result:
    """Look one PHI token of a known sentence up among its candidates: the token itself and its neighbours.

    Returns
    -------
    Result
        Rates "top 1", "top 10" over at most `MOST_SENTENCES` sentences. Series "rank": the true token's, 0 best, as a
        share of the candidates.
    """
    random = np.random.default_rng(seed)
    chosen = np.flatnonzero(targets.has_phi)
    chosen = random.permutation(chosen)[:MOST_SENTENCES]
    table, ranks = tf.constant(targets.vectors), []
    number = min(CANDIDATES, targets.candidates.shape[1])
    for i in chosen:
        tokens = slice(targets.starts[i], targets.starts[i] + targets.lengths[i])
        place = random.choice(np.flatnonzero(targets.hidden[tokens]))
        ids = np.repeat(targets.ids[tokens][None], number + 1, 0)
        ids[1:, place] = random.permutation(targets.candidates[ids[0, place]])[:number]
        lengths = tf.fill([number + 1], tf.constant(targets.lengths[i], tf.int32))
        embeddings = tf.gather(table, ids)
        sent = send(embeddings[:1], lengths[:1]).numpy()
        known = np.mean([send(embeddings, lengths).numpy() for _ in range(TABLE_DRAWS)], 0)
        distance = ((known - sent) ** 2).sum((1, 2))
        ranks.append((distance < distance[0]).sum())
    rank = np.array(ranks)
    notes = targets.note_of[chosen]
    return Result(
        "look up PHI",
        {f"top {k}": rate((rank < k).astype(float), notes, random) for k in (1, 10)},
        {f"top {k}": min(1.0, k / (number + 1)) for k in (1, 10)},
        {"rank": rank / max(number, 1)},
    )
