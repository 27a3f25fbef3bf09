"""Whether a claimed epsilon holds: exact losses, and measured lower bounds."""
