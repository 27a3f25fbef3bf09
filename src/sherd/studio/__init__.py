"""The studio: Sherd in the browser, for people on the machine it runs on.

One program with three homes: a steward's tables, an owner's rounds, an aggregator's rounds.
Everything a page does is a call of the functions that Python users and the command line call.
"""
