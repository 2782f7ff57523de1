"""`pb.explain`: where a gradient comes from, why it is `None`, and where the NaN starts.

An engine records one run, forward and backward (`recorder.py` says what it must give). The record is plain data
(`flow.py`). What it means is decided here: `why.py`, `nonfinite.py`, `residuals.py`. How it looks is in `views/`.
"""
