"""What happens inside a model while it runs, seen operation by operation.

A callback gets every operation. It notes which activation gave the model's outputs and what went into it; the tensors
that are looked up for integer inputs, where gradients end, and puts others in their place if told to; the last maps of
features; operations that may be non-linearities; and how much memory it all takes.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.override.places import Where, running_layer
from pullback.engines.tensorflow.override.scope import while_open
from pullback.engines.tensorflow.saliency.features import Features
from pullback.extend import Place

_LAST: Final = {"Softmax": "softmax", "LogSoftmax": "log-softmax", "Sigmoid": "sigmoid"}
_CARRIES_ON: Final = frozenset({"Identity", "Cast", "Reshape"})
_LOOKS_UP: Final = frozenset({"GatherV2", "ResourceGather", "OneHot", "Cast"})
_CHOOSES: Final = frozenset({"Select", "SelectV2"})
_WRITES: Final = "Assign"  # which the names of all operations that write variables begin with
_MOST_KEPT: Final = (
    16  # operations in the end of a model, among which its last activation is looked for
)


class Observer:
    """The callback of one run."""

    def __init__(
        self,
        inputs: Sequence[Any],
        given: Sequence[Sequence[Any] | None] | None,
        watch: Callable[[Any], None] | None,
        covering: Any,
        passing: set[tuple[int, int]],
        features: Features | None = None,
    ) -> None:
        self._features = features
        self._looked_up: list[dict[int, Any]] = [{} for _ in inputs]
        # Casts to floating-point numbers that are cast back, by number of the input and order: nothing ends there.
        self._passing = passing
        self._met = [0] * len(inputs)
        self.operations: collections.Counter[Place] = collections.Counter()
        self.bytes = 0
        self.wrote = False
        self._given = given
        self._watch = watch
        self._covering = covering
        self._unweighted = getattr(covering, "unweighted", None)
        if self._unweighted is not None:
            self._unweighted.add([t for t in inputs if t.dtype.is_floating])
        self._shapes = [t.shape.as_list() for t in inputs]
        # Inputs, and what was made of them and is whole, by identity; kept, so that no two have one id.
        self._whole = {id(t): (number, t) for number, t in enumerate(inputs)}
        self._conditions: dict[int, Any] = {}  # truths that depend on what is differentiated
        self._layers: dict[
            int, Any
        ] = {}  # whose activation gave a tensor, where nothing is differentiated
        self._ends: collections.OrderedDict[int, tuple[str, Any, Any]] = collections.OrderedDict()

    def __call__(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        """See one operation; its outputs, changed where something else was given for them."""
        del attrs, graph
        op_type = op_type.decode() if isinstance(op_type, bytes) else op_type
        if not outputs:
            self.wrote |= op_type.startswith(_WRITES)
            return outputs
        outputs = list(outputs) if isinstance(outputs, tuple) else outputs
        if outputs[0].dtype.is_bool and any(id(t) in self._conditions for t in inputs):
            self._conditions[id(outputs[0])] = outputs[0]
        number = next((self._whole[id(t)][0] for t in inputs if id(t) in self._whole), None)
        if number is not None:
            self._follow(number, op_type, inputs, outputs)
        if op_type in _LAST or op_type in _CARRIES_ON:
            self._keep_end(op_type, inputs[0], outputs[0])
        if self._watch is None:
            self._weigh(op_type, outputs)
        elif private.possible_gradient_types(inputs):
            self._weigh(op_type, outputs)
            self._note(op_type, op_name, inputs, outputs)
            if self._unweighted is not None:
                self._unweighted.see(op_type, inputs, outputs)
        return outputs

    @property
    def looked_up(self) -> list[list[Any]]:
        """Of each input what was looked up for it."""
        return [list(found.values()) for found in self._looked_up]

    def _follow(self, number: int, op_type: str, inputs: Any, outputs: Any) -> None:
        """An operation reads an input, or what was made of it and is whole."""
        for place, output in enumerate(outputs):
            if output.dtype.is_integer:
                self._whole[id(output)] = (number, output)
                self._take_back(number, inputs)
            elif op_type in _LOOKS_UP and self._is_looked_up(number, op_type, inputs, output):
                outputs[place] = self._found(number, op_type, output)
                if op_type == "Cast":
                    self._whole[id(outputs[place])] = (number, outputs[place])

    def _found(self, number: int, op_type: str, output: Any) -> Any:
        """What is looked up for an input, or what was given for it."""
        known, given = self._looked_up[number], self._given and self._given[number]
        order, self._met[number] = self._met[number], self._met[number] + 1
        if (number, order) in self._passing:
            return output
        if given:
            output = given[len(known)]
            output._pullback_recorded = True  # not as a result of this operation
        elif self._watch is not None:
            self._watch(output)
        if self._unweighted is not None:
            self._unweighted.add([output], looked_up=op_type != "Cast")
        if self._features is not None:
            self._features.look_up(op_type, output)
        known[order] = output
        return output

    def _take_back(self, number: int, inputs: Any) -> None:
        """Whole numbers are made of these: what was looked up there was only on the way."""
        for order, tensor in list(self._looked_up[number].items()):
            if any(each is tensor for each in inputs):
                self._passing.add((number, order))
                del self._looked_up[number][order]

    def _is_looked_up(self, number: int, op_type: str, inputs: Any, output: Any) -> bool:
        index = inputs[1 if op_type in ("GatherV2", "ResourceGather") else 0]
        if id(index) not in self._whole or not index.dtype.is_integer:
            return False
        shape = self._shapes[number]
        return output.dtype.is_floating and output.shape.as_list()[: len(shape)] == shape

    def _weigh(self, op_type: str, outputs: Any) -> None:
        for output in outputs if op_type != "ReadVariableOp" else ():  # which copies nothing
            size = output.shape.num_elements()
            self.bytes += 0 if size is None else size * output.dtype.size

    def _note(self, op_type: str, op_name: Any, inputs: Any, outputs: Any) -> None:
        """An operation of what is differentiated."""
        if outputs[0].dtype.is_bool:
            self._conditions[id(outputs[0])] = outputs[0]
        elif self._is_counted(op_type, inputs) and self._covering.is_outside():
            self.operations[Where(op_type, op_name).place] += 1
        if self._features is not None:
            self._features.see(op_type, op_name, inputs, outputs)

    def _is_counted(self, op_type: str, inputs: Any) -> bool:
        """Whether it is a non-linearity that must have a rule; a mask is none, which is the same whatever varies."""
        if op_type in _CHOOSES and id(inputs[0]) not in self._conditions:
            return False
        return op_type in self._covering.counted

    def _keep_end(self, op_type: str, before: Any, output: Any) -> None:
        self._ends[id(output)] = (op_type, before, output)
        if self._watch is None and op_type in _LAST:
            self._layers[id(output)] = running_layer()
        if len(self._ends) > _MOST_KEPT:
            self._ends.popitem(last=False)

    def last_layer(self, output: Any) -> Any:
        """The layer in which the activation ran that gave this output, if there was one."""
        found = output
        while (end := self._ends.get(id(found))) is not None and end[2] is found:
            if end[0] in _LAST:
                return self._layers.get(id(found))
            found = end[1]
        return None

    def ends_of(self, output: Any) -> list[Any]:
        """This output, and what it was made of up to what its last activation was applied to, if there was one."""
        found, seen = output, [output]
        while (end := self._ends.get(id(found))) is not None and end[2] is found:
            op_type, found, _ = end
            seen.append(found)
            if op_type in _LAST:
                return seen
        return [output]

    def before_last_activation(self, output: Any) -> tuple[Any, str | None]:
        """What the activation was applied to that gave this output, and its name; the output if there was none."""
        found = output
        while (end := self._ends.get(id(found))) is not None and end[2] is found:
            op_type, found, _ = end
            if op_type in _LAST:
                name = _LAST[op_type]
                return tf.reshape(tf.cast(found, output.dtype), tf.shape(output)), name
        return output, None


@contextlib.contextmanager
def observed(observer: Observer) -> Generator[None]:
    """The observer sees the operations of this block, after overrides have had their say."""
    # without `while_open`, operations that leave TensorFlow's fast path are seen by nobody
    with while_open, private.ops_seen_by(observer):
        yield
