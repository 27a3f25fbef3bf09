"""Top-down specialisation under differential privacy, by one owner or by several jointly."""
