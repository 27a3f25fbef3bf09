"""Released noise against the plan: with the original at hand, whether it is what the plan says.

A method names the test of its releases (``Traits.noise``). Every test gives one of three answers:
consistent with the plan, with the chance that halved noise would have been found; refuted, with
the chance of a false alarm; not testable, with the reason.
"""
