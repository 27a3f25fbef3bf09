"""The aggregator: its folder, storage, service and the rounds it runs."""
