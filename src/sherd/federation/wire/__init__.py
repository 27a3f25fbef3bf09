"""What crosses between owners and aggregator: envelopes, chunks, certificates, HTTPS."""
