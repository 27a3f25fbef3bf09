"""The parts of slicing, bucketisation and generalisation that their methods share."""
