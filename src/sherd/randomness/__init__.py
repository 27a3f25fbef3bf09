"""The one door to random numbers.

Everything random in Sherd comes from a ``Randomness`` that is handed in, never from a
global: ``Randomness.from_system()`` for a release, ``Randomness.keyed(key)`` for one that
must come out the same again for anybody who holds the key, ``Randomness.seeded(n)`` for a test.
``source`` holds the class, ``key_stream`` the generator behind a key, ``exponential`` the exact
sampler behind its noise, ``order`` the permutations, ``vetted`` the way to OpenDP's sampler.
"""

from sherd.randomness.source import Randomness

__all__ = ["Randomness"]
