from __future__ import annotations

import hmac
import inspect
import multiprocessing
import os
import pickle
import threading
import warnings

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from chaffinch.errors import InvalidInput, RandomnessUnavailable
from chaffinch.sampling import words
from chaffinch.sampling.words import _DIRECT, _POOL, KeyedWords, SecureWords, secure_words
from tests.cases import each_case

SIZES = (1, 5, _DIRECT - 1, _DIRECT, 3, 5 * _POOL + 1, _POOL, 0, 2)


def test_words_are_the_key_stream_and_none_is_lost_within_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = bytes(range(48))
    monkeypatch.setattr(os, "urandom", lambda count: secret[:count])
    stream = Cipher(algorithms.AES256(secret[:32]), modes.CTR(secret[32:])).encryptor()
    expected = np.frombuffer(stream.update(bytes(8 * 40 * _POOL)), dtype=np.uint64)
    taken = SecureWords().take(40 * _POOL)
    assert np.array_equal(taken, expected)


def test_no_word_is_handed_out_twice() -> None:
    source = SecureWords()
    drawn = np.concatenate([source.take(size) for size in SIZES * 3])
    assert len(drawn) == 3 * sum(SIZES)
    assert len(np.unique(drawn)) == len(drawn)  # Equal by chance: below 1e-9.


def test_the_caller_owns_what_it_gets() -> None:
    source = SecureWords()
    first = source.take(4)
    kept = first.copy()
    source.take(4)
    assert np.array_equal(first, kept)
    assert first.flags.owndata
    assert first.flags.writeable


def test_every_bit_of_a_word_is_fair() -> None:
    # 6.5 standard deviations: a false alarm of 64 × 8e-11.
    count = 1 << 16
    drawn = secure_words().take(count)
    ones = [int((drawn >> np.uint64(bit) & np.uint64(1)).sum()) for bit in range(64)]
    assert max(abs(2 * found - count) for found in ones) < 6.5 * count**0.5


def test_there_is_no_seed() -> None:
    assert not inspect.signature(SecureWords).parameters
    assert not inspect.signature(secure_words).parameters


def test_threads_draw_different_words_from_one_source() -> None:
    source = SecureWords()
    drawn: list[int] = []

    def run() -> None:
        drawn.extend(source.take(1000).tolist())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 4000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("taken", [0, 1, _DIRECT])
def test_a_forked_child_never_repeats_its_parent(taken: int) -> None:
    source = SecureWords()
    source.take(taken)  # The child inherits a key and a half-used pool.
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Newer Pythons see idle threads.
        child = os.fork()
    if child == 0:  # pragma: no cover
        os.write(write, source.take(64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), dtype=np.uint64)
    assert len(theirs) == 64
    assert not np.intersect1d(theirs, source.take(4096)).size


def count_keys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one whenever a key is drawn."""
    keys: list[int] = []
    real = os.urandom

    def urandom(count: int) -> bytes:
        keys.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", urandom)
    return keys


def test_a_new_process_id_alone_asks_for_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    # A fork behind Python's back runs no hook.
    source = SecureWords()
    source.take(1)
    keys = count_keys(monkeypatch)
    source.take(1)
    assert not keys
    monkeypatch.setattr(os, "getpid", lambda: -1)
    source.take(1)
    assert keys


def test_a_key_is_replaced_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = count_keys(monkeypatch)
    monkeypatch.setattr(words, "_KEY_LIFE", 100)
    source = SecureWords()
    for _ in range(6):
        source.take(50)
    assert len(keys) == 3


def test_one_long_request_is_split_between_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = [bytes([number, *range(47)]) for number in range(9)]
    given = iter(secrets)
    monkeypatch.setattr(os, "urandom", lambda _count: next(given))
    monkeypatch.setattr(words, "_KEY_LIFE", 100)
    source = SecureWords()
    taken = np.concatenate([source.take(30), source.take(350), source.take(20)])
    first = []
    for secret in secrets[:4]:
        stream = Cipher(algorithms.AES256(secret[:32]), modes.CTR(secret[32:])).encryptor()
        first.append(np.frombuffer(stream.update(bytes(8 * 2 * _POOL)), dtype=np.uint64))
    lives = [np.isin(taken, stream).sum() for stream in first]
    assert lives == [100, 100, 100, 100]
    assert len(np.unique(taken)) == 400


def test_a_pickled_source_shares_no_key() -> None:
    source = SecureWords()
    source.take(1)
    copy = pickle.loads(pickle.dumps(source))  # noqa: S301
    assert not np.intersect1d(source.take(100), copy.take(100)).size


def _first_words(_: int) -> list[int]:
    return [int(word) for word in secure_words().take(100)]


def test_workers_of_a_pool_differ() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        drawn = [word for part in pool.map(_first_words, range(4), chunksize=1) for word in part]
    assert len(set(drawn)) == 400


@pytest.mark.parametrize("failure", [OSError, NotImplementedError])
def test_without_entropy_nothing_is_drawn(
    failure: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def urandom(count: int) -> bytes:
        raise failure(count)

    monkeypatch.setattr(os, "urandom", urandom)
    source = SecureWords()
    for _ in range(2):  # The second call must not find half a stream.
        with pytest.raises(RandomnessUnavailable):
            source.take(1)


@pytest.mark.parametrize("secret", [b"", b"\x01" * 20, bytes(48), b"\xff" * 48])
def test_bytes_that_cannot_be_random_are_refused(
    secret: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: secret[:count])
    with pytest.raises(RandomnessUnavailable):
        SecureWords().take(1)


def test_entropy_lost_at_a_new_key_stops_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_KEY_LIFE", 10)
    source = SecureWords()
    source.take(10)

    def urandom(count: int) -> bytes:
        raise OSError(count)

    monkeypatch.setattr(os, "urandom", urandom)
    for _ in range(2):
        with pytest.raises(RandomnessUnavailable):
            source.take(1)


@each_case("count", [-1, 1.5, True, "3", None, 2**41])
def test_bad_counts_are_refused(count: object) -> None:
    with pytest.raises(InvalidInput):
        SecureWords().take(count)  # type: ignore[arg-type]


def keyed(secret: bytes = bytes(32), *bound: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    source = KeyedWords(secret, *bound)
    return np.concatenate([source.take(size) for size in SIZES])


def test_keyed_words_are_the_key_stream_of_their_secret_and_what_they_are_bound_to() -> None:
    secret = bytes(range(32))
    text = b"chaffinch/keyed-words@1\n"
    for part in (b"shuffle", b"", b"three"):
        text += len(part).to_bytes(8, "little") + part
    key = hmac.digest(secret, text + bytes(8), "sha256")
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    expected = np.frombuffer(stream.update(bytes(8 * 40 * _POOL)), dtype=np.uint64)
    taken = KeyedWords(secret, b"shuffle", b"", b"three").take(40 * _POOL)
    assert np.array_equal(taken, expected)


def test_keyed_words_are_the_same_for_whoever_does_the_same() -> None:
    assert np.array_equal(keyed(bytes(32), b"a", b"b"), keyed(bytes(32), b"a", b"b"))


@pytest.mark.parametrize(
    "other", [(bytes(31) + b"\1", b"a", b"b"), (bytes(32), b"ab"), (bytes(32), b"a", b"b", b"")]
)
def test_keyed_words_have_nothing_in_common_with_others(other: tuple[bytes, ...]) -> None:
    both = np.concatenate([keyed(bytes(32), b"a", b"b"), keyed(*other)])
    assert len(np.unique(both)) == len(both)  # Equal by chance: below 1e-9.


def test_a_key_is_followed_by_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_KEY_LIFE", 1000)
    source = KeyedWords(bytes(32), b"a")
    drawn = np.concatenate([source.take(700), source.take(2500)])
    assert len(np.unique(drawn)) == 3200
    again = KeyedWords(bytes(32), b"a")
    assert np.array_equal(drawn, np.concatenate([again.take(700), again.take(2500)]))


def test_a_secret_has_its_length_and_its_words_stay_where_they_are() -> None:
    for secret in (b"", b"0" * 31, b"0" * 33):
        with pytest.raises(InvalidInput, match="secret must be 32 bytes") as caught:
            KeyedWords(secret)
        assert "000" not in str(caught.value)
    with pytest.raises(TypeError, match="never copied"):
        pickle.dumps(KeyedWords(bytes(32)))
