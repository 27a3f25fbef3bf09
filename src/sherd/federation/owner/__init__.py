"""An owner in joint rounds: its folder, policy, journal and agent."""
