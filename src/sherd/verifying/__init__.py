"""Re-checking a release from what was released alone, by code of its own."""

from sherd.verifying.check import Check
from sherd.verifying.verification import Verification, verify, verify_contents

__all__ = ["Check", "Verification", "verify", "verify_contents"]
