"""`pb.check`: what the user calls."""

import time
from collections.abc import Sequence
from typing import Any

from pullback._engine import engine_of
from pullback._tree import flatten
from pullback.check.domain import parse
from pullback.check.examine import Examination, Problem
from pullback.check.flat import Subject
from pullback.check.report import Report

DEFAULT_MODES = ("tf.function, tape inside", "tf.function, tape outside")
