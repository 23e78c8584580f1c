"""What a training can be told. Defaults are measured in docs/deid.md. "Published" means Friedrich et al. 2019."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Everything that shapes a model."""

    labels: tuple[str, ...]
    elements: dict[str, str]  # PHI type -> element of the XML it was read from
    representation: str = "lstm"
    size: int = 50  # dimensions of the representation: 50, 100 or 300 in the paper
    neighbors: int = 100  # N: 5 to 500 in the paper
    procedure: str = "alternating"
    width: int = 128  # of the representation's and the de-identifier's LSTM, a direction
    adversary_width: int = 128  # published: 300, which takes 3.5 times as long
    adversary_weight: float = 3.0  # lambda, published: 1
    information_weight: float = 0.015  # beta, of the bound on what a sentence's vectors tell, in nats, published: none
    seed: int = 0


@dataclass(frozen=True)
class Epochs:
    """The most epochs of each phase, published: 20, 20, 40, 0. DANN adds the first and third, then does the last."""

    stable: int = 16
    adversary: int = 1
    joint: int = 2
    settle: int = 8
