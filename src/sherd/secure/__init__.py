"""Secure computation among parties that trust nobody in the middle."""
