"""Tables drawn from a graphical model of noisy marginals.

``measuring`` is the one door to the data: whoever can answer its requests (one owner, owners
of rows, columns or cells) can have a release made. Everything behind it sees noisy numbers.
"""
