"""The second door: what the author of an engine needs.

An engine is one folder under `pullback/engines/` whose package has a function `engine()`, and one line in the table of
`pullback._engine`. It implements `Engine`; what it cannot do it refuses with `UnsupportedError`.
"""

from pullback._bind import Inputs as Inputs
from pullback._engine import Engine as Engine
from pullback._engine import Kind as Kind
from pullback._engine import engine_of as engine_of
from pullback._pullback import Gradients as Gradients
from pullback._pullback import Job as Job
from pullback._pullback import Pullback as Pullback
from pullback._pullback import Ran as Ran
from pullback._rule import Rule as Rule
from pullback.check.probe import Probe as Probe
from pullback.errors import UnsupportedError as UnsupportedError
