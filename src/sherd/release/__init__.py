"""Plans, the contract of methods, and releases: made, charged for and written."""
