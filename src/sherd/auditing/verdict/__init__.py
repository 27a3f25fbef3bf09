"""From measured numbers to what a person must know: results, verdicts, comparisons."""
