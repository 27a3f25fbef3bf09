"""Top-down specialisation under differential privacy, by one owner or by several jointly.

``hierarchy`` puts an attribute's values on a line of codes; ``specialise`` chooses, step by
step, which values to tell apart; ``utility`` scores the choices and ``budget`` shares out
epsilon; ``plain`` answers from counts in the clear and ``partition`` is what comes out.
"""
