"""Word embeddings: read from a file, or fastText subword vectors trained on the notes at hand (gensim)."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from gensim.models import FastText
from gensim.models.fasttext import ft_ngram_hashes, load_facebook_vectors

from deid.files import read_text
from utils.errors import UserError

MOST_WORDS = 200_000  # of a file, the most frequent, because the rest would only swell the model
SUBWORDS = (3, 6)  # characters of the shortest and the longest subword
BUCKETS = 50_000  # hashed subwords of vectors trained on notes


class Embeddings:
    """Words and their vectors. A word that is not among them gets the mean of its subwords' vectors if there are any.

    Vectors are handed out centred and scaled to unit-size components (length sqrt(E)). The vectors of a small corpus
    share a large common part, which hides their neighbours (Mu and Viswanath, ICLR 2018).

    Parameters
    ----------
    words : sequence of str
        V words.
    vectors : [V, E] float
        Their vectors.
    subwords : [buckets, E] float
        Vectors of hashed character n-grams as in fastText (Bojanowski et al. 2017). No rows mean no subwords.
    lengths : (int, int)
        The shortest and longest n-gram.
    """

    def __init__(
        self, words: Sequence[str], vectors: np.ndarray, subwords: np.ndarray, lengths: tuple[int, int] = SUBWORDS
    ) -> None:
        self.words, self.vectors, self.subwords, self.lengths = list(words), vectors, subwords, lengths
        self._row = {word: row for row, word in enumerate(self.words)}
        self._centre = vectors.mean(0, dtype=np.float64).astype(np.float32)

    @property
    def size(self) -> int:
        """Dimensions E."""
        return int(self.vectors.shape[1])

    def __getitem__(self, words: Iterable[str]) -> np.ndarray:
        """The n words' vectors: [n, E] float32, each of length sqrt(E), or 0 where nothing is known of a word."""
        found = np.array([self._vector(word) for word in words], np.float32).reshape(-1, self.size) - self._centre
        length = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.where(length > 0, length, 1) * np.float32(np.sqrt(self.size))

    def _vector(self, word: str) -> np.ndarray:
        row = self._row.get(word, self._row.get(word.lower()))
        if row is not None:
            return self.vectors[row]
        if len(self.subwords):
            hashes = ft_ngram_hashes(word, *self.lengths, len(self.subwords))
            if len(hashes):
                return self.subwords[hashes].mean(0, dtype=np.float32)
        return self._centre

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what `from_arrays` needs, without pickled objects."""
        return {
            "words": np.frombuffer("\n".join(self.words).encode("utf-8"), np.uint8),
            "vectors": self.vectors.astype(np.float16),
            "subwords": self.subwords.astype(np.float16),
            "lengths": np.array(self.lengths),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Embeddings":
        """Undo `arrays`. Raises ValueError if they do not fit together."""
        words = arrays["words"].tobytes().decode("utf-8").split("\n")
        vectors, subwords = arrays["vectors"].astype(np.float32), arrays["subwords"].astype(np.float32)
        if len(words) != len(vectors) or subwords.shape[1] != vectors.shape[1]:
            raise ValueError("words, vectors and subwords do not fit together")
        return cls(words, vectors, subwords, (int(arrays["lengths"][0]), int(arrays["lengths"][1])))


def train_embeddings(texts: Iterable[Sequence[str]], size: int, seed: int, epochs: int = 20) -> Embeddings:
    """Train fastText skip-gram vectors on sentences of words, with one thread so that a seed gives one result."""
    model = FastText(
        vector_size=size,
        window=5,
        min_count=1,
        sg=1,
        min_n=SUBWORDS[0],
        max_n=SUBWORDS[1],
        bucket=BUCKETS,
        workers=1,
        seed=seed,
    )
    corpus = [list(sentence) for sentence in texts]
    model.build_vocab(corpus)
    model.train(corpus, total_examples=len(corpus), epochs=epochs)
    # what is stored in half precision is used in half precision: the same vectors before and after saving
    vectors, subwords = model.wv.vectors.astype(np.float16), model.wv.vectors_ngrams.astype(np.float16)
    return Embeddings(model.wv.index_to_key, vectors.astype(np.float32), subwords.astype(np.float32))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_embeddings(path: Path) -> Embeddings:
    """Read word2vec or GloVe text (first line or none) or fastText `.bin`. `UserError` names what is wrong."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if path.suffix == ".bin":
        try:
            keyed = load_facebook_vectors(str(path))
        except Exception as error:  # gensim raises whatever the bytes lead it to
            raise UserError(f"{path}: not a fastText .bin file, or damaged") from error
        vectors, subwords = keyed.vectors[:MOST_WORDS], keyed.vectors_ngrams
        return Embeddings(
            keyed.index_to_key[:MOST_WORDS],
            vectors.astype(np.float16).astype(np.float32),
            subwords.astype(np.float16).astype(np.float32),
            (keyed.min_n, keyed.max_n),
        )
    words: list[str] = []
    rows: list[np.ndarray] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        parts = line.rstrip().split(" ")
        if len(parts) < 2 or (number == 1 and len(parts) == 2):
            continue  # an empty line, or word2vec's first: how many words, how many dimensions
        if rows and len(parts) > len(rows[0]) + 1 and not _is_number(parts[-len(rows[0]) - 1]):
            continue  # a "word" with spaces in it, as some GloVe files have, is no token of ours
        try:
            row = np.array(parts[1:], np.float16)
        except ValueError as error:
            raise UserError(f"{path}: line {number} is not a word followed by numbers") from error
        if rows and len(row) != len(rows[0]):
            raise UserError(f"{path}: line {number} has {len(row)} numbers, those before it {len(rows[0])}")
        if not np.isfinite(row).all():
            raise UserError(f"{path}: line {number} holds a number that is not finite in half precision")
        words.append(parts[0])
        rows.append(row)
        if len(words) == MOST_WORDS:
            break
    if len(words) < 2:
        raise UserError(f"{path}: no word vectors in it")
    vectors = np.array(rows).astype(np.float32)
    return Embeddings(words, vectors, np.zeros((0, vectors.shape[1]), np.float32))
