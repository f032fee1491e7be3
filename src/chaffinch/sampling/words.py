"""Random 64-bit words: AES-256 in counter mode, keyed by the operating system.

There is no seed and no fallback: without good entropy an error is raised. Where work may be done
twice, as by the tasks of a cluster, the key comes from a secret of the job instead, which itself
is fresh from the operating system.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import threading
from typing import NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, RandomnessUnavailable, checks

_POOL = 1 << 13
"""Words kept ready for small requests (64 KiB, where the cipher is at full speed)."""

_DIRECT = 1 << 11
"""From this many words on, the cipher writes straight into the array that is returned."""

_KEY_LIFE = 1 << 32
"""Words under one key: 2³¹ blocks never repeat, random ones would with chance below 2⁻⁶⁶."""

MOST_WORDS = 1 << 40

SECRET_BYTES = 32
"""The length of the secret that keyed words come from."""

_ZEROS = bytes(32 * _POOL)
_DOMAIN = b"chaffinch/keyed-words@1\n"


class Words(Protocol):
    """A source of independent uniform 64-bit words."""

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words in an array that the caller owns."""
        ...


class _WordSource:
    def take(self, count: int) -> NDArray[np.uint64]:
        if type(count) is not int or not 0 <= count <= MOST_WORDS:
            count = checks.whole("count of words", count, most=MOST_WORDS)
        stream = self._stream()
        return stream.take(count) if count <= stream.left else self._split(count)

    def _split(self, count: int) -> NDArray[np.uint64]:
        # More words than are left under one key: the rest comes from the next keys.
        words = np.empty(count, dtype=np.uint64)
        done = 0
        while done < count:
            stream = self._stream()
            done += stream.fill(words[done : done + stream.left])
        return words

    def _stream(self) -> _Stream:
        raise NotImplementedError


class SecureWords(_WordSource):
    """Words that nobody can predict; safe to share between threads and across forks.

    Every thread has its own key, and a forked child starts with a new one, so no two of
    them ever see the same words.

    >>> len(SecureWords().take(3))
    3
    """

    def __init__(self) -> None:
        self._local = _Local()

    def _stream(self) -> _Stream:
        stream = self._local.stream
        if stream is None or stream.stale():
            # Without entropy this raises, and the old stream stays stale: the next call raises too.
            stream = self._local.stream = _Stream(_keyed_cipher())
        return stream

    def __reduce__(self) -> tuple[type[SecureWords], tuple[()]]:
        return (SecureWords, ())  # A copy in another process shares no key.


class KeyedWords(_WordSource):
    """Words that a secret and what they are for decide: who draws again gets the same ones.

    The key of AES is HMAC-SHA-256 of the parts of ``bound`` under the secret, so words that are
    bound to anything else are independent of these for whoever lacks the secret. The same calls
    in the same order give the same words. Not for several threads.

    >>> draw = KeyedWords(bytes(32), b"shuffle", b"part 3").take
    >>> again = KeyedWords(bytes(32), b"shuffle", b"part 3").take
    >>> bool((draw(5) == again(5)).all())
    True
    """

    def __init__(self, secret: bytes, *bound: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise InvalidInput("secret", f"{SECRET_BYTES} bytes", "something else")
        self._keys = hmac.new(secret, _DOMAIN, hashlib.sha256)
        for part in bound:
            # With its length before it, no other parts make the same text.
            self._keys.update(len(part).to_bytes(8, "little") + part)
        self._number = 0
        self._current: _Stream | None = None

    def _stream(self) -> _Stream:
        if self._current is None or self._current.left <= 0:
            key = self._keys.copy()
            key.update(self._number.to_bytes(8, "little"))
            # The counter may start at 0: no other stream has this key.
            cipher = Cipher(algorithms.AES256(key.digest()), modes.CTR(bytes(16))).encryptor()
            self._number, self._current = self._number + 1, _Stream(cipher)
        return self._current

    def __reduce__(self) -> NoReturn:
        raise TypeError("words under a key are never copied")


class _Stream:
    def __init__(self, cipher: CipherContext) -> None:
        self._born = _process()
        self._cipher = cipher
        self.left = _KEY_LIFE
        self._pool = np.empty(_POOL, dtype=np.uint64)
        self._next = _POOL  # An empty pool.

    def stale(self) -> bool:
        return self.left <= 0 or self._born != _process()

    def take(self, count: int) -> NDArray[np.uint64]:
        # Counted before they are drawn: a failure wastes words and repeats none.
        self.left -= count
        if count >= _DIRECT:
            return self._fill(np.empty(count, dtype=np.uint64))
        if count > _POOL - self._next:
            self._next = _POOL  # Stays empty if filling fails: no word is handed out twice.
            self._fill(self._pool)
            self._next = 0
        start = self._next
        self._next = start + count
        return self._pool[start : self._next].copy()

    def fill(self, words: NDArray[np.uint64]) -> int:
        self.left -= len(words)
        return len(self._fill(words))

    def _fill(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Overwrite ``words`` with key stream: the encryption of zeros."""
        target = words.view(np.uint8).data
        for start in range(0, len(target), len(_ZEROS)):
            part = target[start : start + len(_ZEROS)]
            written = self._cipher.update_into(memoryview(_ZEROS)[: len(part)], part)
            if written != len(part):
                raise RandomnessUnavailable("stream cipher", "produce every byte asked for")
        return words


class _Local(threading.local):
    # A new thread starts without a stream, and so with a key of its own.
    stream: _Stream | None = None


def _keyed_cipher() -> CipherContext:
    """Return AES-256-CTR with a key and a first counter block from the operating system."""
    try:
        secret = os.urandom(48)
    except (OSError, NotImplementedError) as failure:
        raise RandomnessUnavailable("operating system", "provide random bytes") from failure
    key, counter = secret[:32], secret[32:]
    # One byte over and over is what a broken source returns; by chance it never happens.
    if len(secret) != 48 or len(set(key)) < 2:
        raise RandomnessUnavailable("operating system", "provide random bytes")
    return Cipher(algorithms.AES256(key), modes.CTR(counter)).encryptor()


class _Forks:
    """How many forks led to this process: a process id alone can come back."""

    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.add)


def _process() -> tuple[int, int]:
    """Return what tells this process from its parents and children."""
    return (os.getpid(), _Forks.count)


@functools.cache
def secure_words() -> SecureWords:
    """Return the process's shared source; each thread has its own key in it."""
    return SecureWords()
