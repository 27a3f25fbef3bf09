"""The case under audit: original, release and control group, read and made comparable."""
