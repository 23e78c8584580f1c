"""The text track's commands on small made-up notes, end to end."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deid_notes import ELEMENTS, made_up_notes, write_folder

tf = pytest.importorskip("tensorflow")
pytest.importorskip("gensim")

from deid import cli, files, pipeline, storage  # noqa: E402
from deid.attacks.fitting import Channel, Effort  # noqa: E402
from deid.attacks.look_up_phi import look_up_phi  # noqa: E402
from deid.attacks.look_up_sentences import look_up_sentences  # noqa: E402
from deid.attacks.tell_apart import tell_apart  # noqa: E402
from deid.corpus import Note, Span, read_notes  # noqa: E402
from deid.embeddings import train_embeddings  # noqa: E402
from deid.encoding import encode, label_set  # noqa: E402
from deid.model import Model  # noqa: E402
from deid.networks import Representation  # noqa: E402
from deid.settings import Epochs, Settings  # noqa: E402
from deid.steps import Steps, make_batch  # noqa: E402
from deid.tokens import sentences  # noqa: E402
from deid.training import PATIENCE, phases, train  # noqa: E402
from utils.errors import UserError  # noqa: E402

TINY = ["--size", "5", "--width", "8", "--adversary-width", "4", "--embedding-size", "8", "--neighbors", "5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes to train on, to validate and to label, and a model trained on them."""
    home = tmp_path_factory.mktemp("deid")
    write_folder(home / "train", made_up_notes(16, 1))
    write_folder(home / "dev", made_up_notes(6, 2), brat=True)
    run(
        "train",
        "--train",
        home / "train",
        "--validation",
        home / "dev",
        "-o",
        home / "model.npz",
        *TINY,
        "--epochs",
        3,
        1,
        1,
        1,
    )
    return home


def run(*arguments: Any) -> None:
    cli.main([str(argument) for argument in arguments])


def fails(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        run(*arguments)
    assert exit_.value.code == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    return error


def tiny_model(notes: list[Note], **settings: Any) -> Model:
    vectors = train_embeddings([s.words for n in notes for s in sentences(n)], 8, 0, epochs=2)
    chosen = {"size": 5, "neighbors": 5, "width": 8, "adversary_width": 4} | settings
    return Model(Settings(tuple(label_set(notes)), ELEMENTS, **chosen), vectors)


def test_train_leaves_a_model_and_no_checkpoint(folder: Path) -> None:
    assert (folder / "model.npz").exists()
    assert not (folder / "model.npz.checkpoint").exists()


def test_represent_then_retrain_gives_a_model_that_labels(folder: Path, tmp_path: Path) -> None:
    model = folder / "model.npz"
    for name in ("a.npz", "b.npz"):
        run("represent", "--model", model, "--in", folder / "train", "-o", tmp_path / name)
    first, second = (files.read_archive(tmp_path / name, "representations")[1] for name in ("a.npz", "b.npz"))
    assert set(first) == {"representations", "casing", "labels", "lengths"}  # no words, no names, no embeddings
    assert first["lengths"].tolist() != second["lengths"].tolist()  # order drawn anew
    assert len(np.unique(np.concatenate([first["representations"], second["representations"]]), axis=0)) == 2 * len(
        first["labels"]
    )  # noise drawn anew
    run(
        "retrain",
        "--in",
        tmp_path / "a.npz",
        tmp_path / "b.npz",
        "--model",
        model,
        "-o",
        tmp_path / "m2.npz",
        "--epochs",
        1,
    )
    old, new = storage.load_model(model), storage.load_model(tmp_path / "m2.npz")
    assert old.fingerprint() == new.fingerprint()
    assert not np.allclose(old.deidentifier.get_weights()[1], new.deidentifier.get_weights()[1])


def test_label_writes_xml_brat_and_cleaned_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run("label", "--model", folder / "model.npz", "--in", folder / "dev", "-o", out, "--redact", "--pseudonymize")
    assert {path.name for path in out.iterdir()} == {"xml", "brat", "redacted", "pseudonymized"}
    assert read_notes(out / "xml", True) == read_notes(out / "brat", True)
    run("evaluate", "--gold", folder / "dev", "--predicted", out / "xml")
    assert "entities, strict" in capsys.readouterr().out


def test_a_model_learns_to_label(folder: Path) -> None:
    notes = made_up_notes(60, 1)
    model = tiny_model(notes, representation="raw", width=64)
    fit = encode(notes, model.embeddings, model.settings.labels, 5, np.random.default_rng(0))
    train(model, fit, fit, phases(model.settings, Epochs(15, 1, 1)), show=False)
    found = pipeline.label(model, notes[:10])
    gold = {(n.name, s) for n in notes[:10] for s in n.spans or ()}
    assert len(gold & {(n.name, s) for n in found for s in n.spans or ()}) > 0.8 * len(gold)


@pytest.fixture
def eager() -> Iterator[None]:
    """Run steps without compiling them, which takes longer than a tiny training."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("procedure", ["alternating", "dann"])
def test_a_stopped_training_goes_on_to_the_same_model(tmp_path: Path, procedure: str) -> None:
    notes = made_up_notes(8)
    models = [tiny_model(notes, procedure=procedure) for _ in range(2)]
    plan = phases(models[0].settings, Epochs(1, 1, 1, 1))
    fit = encode(notes, models[0].embeddings, models[0].settings.labels, 5, np.random.default_rng(0))
    train(models[0], fit, fit, plan, show=False)

    class Stop(Exception):
        pass

    writes = []
    keep = files.write_archive

    def stop_after_two(*arguments: Any) -> None:
        keep(*arguments)
        writes.append(1)
        if len(writes) == 1:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deid.training.write_archive", stop_after_two)
        with pytest.raises(Stop):
            train(models[1], fit, fit, plan, tmp_path / "c", show=False)
    again = tiny_model(notes, procedure=procedure)
    history = train(again, fit, fit, plan, tmp_path / "c", show=False)
    assert len(history) == (3 if procedure == "dann" else 4)
    for name, array in models[0].weights().items():
        assert again.weights()[name] == pytest.approx(array, abs=1e-5), name
    other = tiny_model(notes, procedure=procedure, seed=1)
    with pytest.raises(UserError, match="other notes or settings"):
        train(other, fit, fit, plan, tmp_path / "c", show=False)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("step", ["representation", "dann"])
def test_with_lambda_0_the_adversary_does_not_reach_the_representation(step: str) -> None:
    notes = made_up_notes(8)
    model = tiny_model(notes, adversary_weight=0.0, information_weight=0.0)
    steps = Steps(model)
    deid = steps.losses.deid
    steps.losses.deid = lambda *parts: 0.0 * deid(*parts)  # type: ignore[method-assign]
    fit = encode(notes, model.embeddings, model.settings.labels, 5, np.random.default_rng(0))
    before = [np.array(weight) for weight in model.representation.get_weights()]
    batch = make_batch(fit, np.arange(8), np.random.default_rng(0))
    _, adversary_loss = steps.run(step, tf.constant(fit.vectors), batch)
    assert float(adversary_loss) > 0.1
    for old, new in zip(before, model.representation.get_weights(), strict=True):
        assert np.array_equal(old, new)


def test_vectors_kept_of_other_notes_are_not_taken_over(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "m.npz.checkpoint" / "embeddings.npz"
    cli._embeddings(None, made_up_notes(3, 9), 8, 0, secret)
    arguments = ("--validation", folder / "dev", "-o", tmp_path / "m.npz", *TINY, "--epochs", 1, 0, 0, 0)
    assert "other notes or settings" in fails(capsys, "train", "--train", folder / "train", *arguments)
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--seed", -1), ("--adversary-weight", "nan"), ("--information-weight", -3), ("--size", 0)]
)
def test_settings_that_make_no_sense_are_refused(folder: Path, tmp_path: Path, option: str, value: object) -> None:
    arguments = ("--train", folder / "train", "--validation", folder / "dev", "-o", tmp_path / "m.npz")
    with pytest.raises(SystemExit) as exit_:
        run("train", *arguments, option, value)
    assert exit_.value.code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("eager")
def test_training_stops_early_with_the_best_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = made_up_notes(4)
    model = tiny_model(notes, representation="raw")
    fit = encode(notes, model.embeddings, model.settings.labels)
    losses, seen = iter([3.0, 1.0, *range(2, 90)]), []

    def validate(run: Any, _: Any) -> tuple[float, float]:
        seen.append(run.model.weights())
        return float(next(losses)), 0.0

    monkeypatch.setattr("deid.training._Run._validate", validate)
    history = train(model, fit, fit, phases(model.settings, Epochs(80, 1, 1, 0)), show=False)
    assert len(history) == 2 + PATIENCE
    for name, array in model.weights().items():
        assert np.array_equal(array, seen[1][name]), name
    assert any(not np.array_equal(array, seen[-1][name]) for name, array in seen[1].items())


def test_the_audit_finds_raw_embeddings_out(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    run(
        "audit",
        "--model",
        folder / "model.npz",
        "--in",
        folder / "dev",
        "--attacker",
        folder / "train",
        "-o",
        out,
        "--epochs",
        1,
        "--width",
        8,
    )
    page = out.read_text(encoding="utf-8")
    assert page.count("data:image/png") == 3
    assert "look up PHI, top 1" in capsys.readouterr().out
    model = storage.load_model(folder / "model.npz")
    notes = read_notes(folder / "dev", True)
    targets = encode(notes, model.embeddings, model.settings.labels, 5, np.random.default_rng(0))
    bare = Representation("raw", 8, 0, model.random)
    found = look_up_sentences(tf.function(bare), targets, 0)
    assert found.rates["top 1"].value == 1.0
    assert found.chance["top 1"] < 1.0
    cut = [slice(a, a + n) for a, n in zip(targets.starts, targets.lengths, strict=True)]
    different = {tuple(targets.ids[place]): tuple(targets.labels[place]) for place in cut}
    guess = len(set(different.values())) / len(different)  # of sentences with the same labels, one is guessed right
    assert found.labels_alone["top 1"] == pytest.approx(guess)
    assert look_up_phi(tf.function(bare), targets, 0).rates["top 1"].value == 1.0


def test_an_attack_on_nothing_stays_at_chance_even_where_a_replaced_token_shows(folder: Path) -> None:
    model = storage.load_model(folder / "model.npz")
    fit, targets = (
        encode(read_notes(folder / part, True), model.embeddings, model.settings.labels, 5, np.random.default_rng(0))
        for part in ("train", "dev")
    )
    # every replacement is the same word, which is never PHI: who sees it knows that the sentence was altered
    fit, targets = (replace(part, candidates=np.full_like(part.candidates, part.ids[0])) for part in (fit, targets))
    effort = Effort(seed=0, epochs=60, width=8, show=False)
    nothing = lambda embeddings, lengths: tf.zeros_like(embeddings[..., :1])  # noqa: E731
    found = tell_apart(Channel(nothing, 1), fit, targets, effort)
    assert found.rates["both"].value == pytest.approx(0.5, abs=0.15)
    bare = Representation("raw", 8, 0, model.random)
    seen = tell_apart(Channel(tf.function(bare), 8), fit, targets, effort)
    assert seen.learned is not None
    assert 1 <= seen.learned[0] <= seen.learned[1] == 60
    assert seen.rates["both"].value > 0.8, "what is shown openly is found"


def test_nothing_is_overwritten(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = folder / "model.npz"
    before = model.read_bytes()
    assert "exists" in fails(capsys, "represent", "--model", model, "--in", folder / "dev", "-o", model)
    assert model.read_bytes() == before
    assert "exists" in fails(capsys, "label", "--model", model, "--in", folder / "dev", "-o", folder / "train")


def test_a_label_unknown_to_the_model_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(tmp_path / "n", [Note("odd", "Ana called 555", (Span(11, 14, "PHONE"),))])
    arguments = ("represent", "--model", folder / "model.npz", "--in", tmp_path / "n", "-o", tmp_path / "r.npz")
    error = fails(capsys, *arguments)
    assert str(tmp_path / "n" / "odd.xml") in error
    assert "PHONE" in error
    assert not (tmp_path / "r.npz").exists()
    with pytest.raises(UserError, match="PHONE"):
        run("--debug", *arguments)


def test_models_and_representations_are_checked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = folder / "model.npz"
    meta, arrays = files.read_archive(model, "model")
    label = ("label", "--in", folder / "dev", "-o", tmp_path / "o", "--model")
    assert "no such" in fails(capsys, *label, tmp_path / "none.npz").lower()
    whole = bytearray(model.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / "bad.npz").write_bytes(whole)
    assert "bad.npz" in fails(capsys, *label, tmp_path / "bad.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not a zip")
    assert "bad.npz" in fails(capsys, *label, tmp_path / "bad.npz")
    files.write_archive(tmp_path / "old.npz", "model", {**meta, "format": 0}, arrays)
    assert "format 0" in fails(capsys, *label, tmp_path / "old.npz")
    files.write_archive(tmp_path / "less.npz", "model", meta, dict(list(arrays.items())[1:]))
    assert "less.npz: a damaged model" in fails(capsys, *label, tmp_path / "less.npz")
    run("represent", "--model", model, "--in", folder / "dev", "-o", tmp_path / "r.npz")
    assert "holds a representations" in fails(capsys, *label, tmp_path / "r.npz")
    meta, arrays = files.read_archive(tmp_path / "r.npz", "representations")
    retrain = ("retrain", "--model", model, "-o", tmp_path / "m2.npz", "--in")
    cases = {
        "size": {"representations": arrays["representations"][:, :3]},
        "damaged": {"lengths": arrays["lengths"][1:]},
    }
    for says, change in cases.items():
        files.write_archive(tmp_path / f"{says}.npz", "representations", meta, arrays | change)
        assert f"{says}.npz: " in (error := fails(capsys, *retrain, tmp_path / f"{says}.npz"))
        assert says in error
    files.write_archive(tmp_path / "other.npz", "representations", meta | {"model": "0"}, arrays)
    assert "another representation model" in fails(capsys, *retrain, tmp_path / "other.npz")
