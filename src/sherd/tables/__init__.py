"""Tables: schemas, domains and taxonomies; reading and writing; any dataframe in, the same out."""
