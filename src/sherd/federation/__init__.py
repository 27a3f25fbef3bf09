"""Owners and an aggregator as processes: envelopes, storage, agents and the service."""
