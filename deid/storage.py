"""Two files: a model, and what a hospital sends. Each is one .npz of arrays and JSON without pickles.

Both are checked when they are read.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from deid.embeddings import Embeddings
from deid.files import read_archive, write_archive
from deid.model import Model
from deid.networks import KINDS
from deid.settings import Settings
from utils.errors import UserError


def save_model(path: Path, model: Model) -> None:
    """Write a model as one file."""
    arrays = {f"weights/{name}": array for name, array in model.weights().items()}
    arrays |= {f"embeddings/{name}": array for name, array in model.embeddings.arrays().items()}
    write_archive(path, "model", {"settings": asdict(model.settings)}, arrays)


def load_model(path: Path) -> Model:
    """Read a model.

    Raises
    ------
    UserError
        If the file is missing, damaged, of another version or not a model.
    """
    meta, arrays = read_archive(path, "model")
    parts: dict[str, dict[str, np.ndarray]] = {"weights": {}, "embeddings": {}}
    try:
        for name, array in arrays.items():
            group, _, rest = name.partition("/")
            parts[group][rest] = array
        settings = Settings(**{**meta["settings"], "labels": tuple(meta["settings"]["labels"])})
        if settings.representation not in KINDS:
            raise ValueError(f"unknown representation {settings.representation}")
        model = Model(settings, Embeddings.from_arrays(parts["embeddings"]))
        model.set_weights(parts["weights"])
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path}: a damaged model: {' '.join(str(error).split())[:200]}") from error
    model.renew_noise()
    return model


@dataclass
class Shared:
    """What a hospital sends: n sentences, t tokens in all.

    Attributes
    ----------
    representations : [t, S] float32
    casing : [t] uint8
    labels : [t] int16
        Index into `label_names`.
    lengths : [n] int32
    label_names : tuple of str
    model : str
        Fingerprint of the representation model.
    """

    representations: np.ndarray
    casing: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    label_names: tuple[str, ...]
    model: str


def save_shared(path: Path, shared: Shared) -> None:
    """Write what a hospital sends."""
    arrays = {name: getattr(shared, name) for name in ("representations", "casing", "labels", "lengths")}
    write_archive(path, "representations", {"labels": shared.label_names, "model": shared.model}, arrays)


def load_shared(path: Path, model: Model) -> Shared:
    """Read what a hospital sent.

    Raises
    ------
    UserError
        Naming the file, if it is not whole or was not made with `model`.
    """
    meta, arrays = read_archive(path, "representations")
    try:
        shared = Shared(**arrays, label_names=tuple(meta["labels"]), model=meta["model"])
        tokens, size = shared.representations.shape
        whole = (
            shared.casing.shape == shared.labels.shape == (tokens,)
            and shared.lengths.ndim == 1
            and (shared.lengths > 0).all()
            and int(shared.lengths.sum()) == tokens
            and bool(np.isfinite(shared.representations).all())
            and 0 <= int(shared.labels.min()) <= int(shared.labels.max()) < len(shared.label_names)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a damaged representation file") from error
    if not whole:
        raise UserError(f"{path}: a damaged representation file: its arrays do not fit together")
    if size != model.size:
        raise UserError(f"{path}: representations of size {size}, the model's are of size {model.size}")
    if shared.model != model.fingerprint():
        raise UserError(f"{path}: made with another representation model (same size, other weights)")
    if shared.label_names != model.settings.labels:
        raise UserError(f"{path}: its labels are not the model's")
    return shared
