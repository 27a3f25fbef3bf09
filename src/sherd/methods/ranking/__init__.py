"""Masking by individual ranking: cluster means with noise, or noise on every value."""
