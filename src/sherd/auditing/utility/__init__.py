"""What a release is worth: distributions, associations, queries and models, before and after."""
