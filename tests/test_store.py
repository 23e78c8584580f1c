"""A finished piece of work is there whole or not at all, and is found again by what it came from."""

import numpy as np
import pytest

from scoring.store import Store, StoredResult, digest_arrays, key

PIECE = StoredResult({"score": 0.5, "name": "ñ"}, {"data": np.arange(6.0).reshape(2, 3)})


def test_what_was_put_is_found(tmp_path):
    Store(tmp_path / "s").put("hider", "k", PIECE)
    found = Store(tmp_path / "s").get("hider", "k")
    assert found.facts == PIECE.facts
    np.testing.assert_array_equal(found.arrays["data"], PIECE.arrays["data"])
    assert Store(tmp_path / "s").get("seeker", "k") is None


def test_only_the_owner_may_look(tmp_path):
    store = Store(tmp_path / "s")
    store.put("hider", "k", PIECE)
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.put("hider", "k", PIECE)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.put("hider", "k", StoredResult({"score": 1.0}))
    assert store.get("hider", "k").facts == PIECE.facts
    assert [path.name for path in (tmp_path / "hider").iterdir()] == ["k.npz"]


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_piece_that_was_cut_short_counts_as_missing(tmp_path, keep):
    store = Store(tmp_path)
    store.put("hider", "k", PIECE)
    path = store.path("hider", "k")
    path.write_bytes(path.read_bytes()[:keep])
    assert store.get("hider", "k") is None


def test_pickles_are_not_read(tmp_path):
    store = Store(tmp_path)
    (tmp_path / "hider").mkdir()
    np.savez(store.path("hider", "k"), **{"facts.json": np.array([{"a": 1}], dtype=object)})
    assert store.get("hider", "k") is None


def test_keys_tell_inputs_apart_and_do_not_depend_on_their_order():
    assert key({"a": 1, "b": [2]}) == key({"b": [2], "a": 1}) != key({"a": 1, "b": [3]})


def test_digests_tell_arrays_of_the_same_bytes_apart():
    zeros = np.zeros((2, 3))
    digests = {
        digest_arrays(zeros),
        digest_arrays(zeros.T),
        digest_arrays(zeros.astype("i8")),
        digest_arrays(zeros, None),
    }
    assert len(digests) == 4
    assert digest_arrays(np.asfortranarray(np.arange(6.0).reshape(2, 3))) == digest_arrays(np.arange(6.0).reshape(2, 3))


def test_a_flipped_bit_anywhere_is_noticed_and_the_piece_counts_as_missing(tmp_path):
    store = Store(tmp_path)
    store.put("utility", "k", PIECE)
    path = store.path("utility", "k")
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :])
        assert not store.has("utility", "k"), at
        assert store.get("utility", "k") is None, at
    store.put("utility", "k", PIECE)  # and it is made again
    assert store.get("utility", "k").facts == PIECE.facts


def test_a_piece_moved_to_another_key_or_kind_counts_as_missing(tmp_path):
    store = Store(tmp_path)
    store.put("hider", "k", PIECE)
    for kind, name in (("hider", "other"), ("seeker", "k")):
        store.path(kind, name).parent.mkdir(exist_ok=True)
        store.path(kind, name).write_bytes(store.path("hider", "k").read_bytes())
        assert store.get(kind, name) is None


def test_a_piece_is_still_an_npz_that_numpy_reads(tmp_path):
    store = Store(tmp_path)
    store.put("hider", "k", PIECE)
    with np.load(store.path("hider", "k"), allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["data"], PIECE.arrays["data"])
