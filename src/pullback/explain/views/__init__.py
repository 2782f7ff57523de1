"""How a flow looks: in the terminal, in a notebook, as a page, beside another one.

`layers.py` groups operations, `marks.py` says what is remarkable about one, `statistics.py` sums both up. The views
take their words from `words.py` and what is wrong from `findings.py`.
"""
