"""Re-checking a release from what was released alone, by code of its own."""

from sherd.verifying.check import Check
from sherd.verifying.verification import Verification, verify

__all__ = ["Check", "Verification", "verify"]
