"""What ready-made rules and functions compute with: NumPy's names where it has them, TensorFlow's operations behind."""

from pullback.engines.tensorflow.array_functions.blocks import *
from pullback.engines.tensorflow.array_functions.elementary import *
from pullback.engines.tensorflow.array_functions.for_attention import *
from pullback.engines.tensorflow.array_functions.for_functions import *
from pullback.engines.tensorflow.array_functions.for_rules import *
from pullback.engines.tensorflow.array_functions.logits import *
from pullback.engines.tensorflow.array_functions.matrices import *
from pullback.engines.tensorflow.array_functions.programs import *
from pullback.engines.tensorflow.array_functions.python_calls import *
from pullback.engines.tensorflow.array_functions.recording import *
from pullback.engines.tensorflow.checkpointing import checkpointed as checkpointed
from pullback.engines.tensorflow.checkpointing import operations_like as operations_like
from pullback.engines.tensorflow.stateful_operations import refusing_state as refusing_state
