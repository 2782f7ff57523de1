"""Every error of pullback, in one tree.

PullbackError
 ├── RuleError                  a rule cannot be used as it was written
 │    ├── RuleSignatureError    it asks for something that is not on offer
 │    ├── RuleResultError       it returned something that does not fit the inputs; a ValueError and TypeError, too
 │    └── NotLinearError        forward mode needs a rule that is linear in its upstream, and seen to be
 ├── ArgumentError              a ready-made function was given something that it does not take
 ├── NotConverged               an equation was not solved to its tolerance, forward or backward
 ├── ExternalError              code behind `pb.functions.external` failed, or returned what was not promised
 ├── BodyResultError            a function under `custom_gradient` returned no backward function
 ├── UnsupportedError           the engine cannot do this; the message says what to do instead
 │    └── UnreachableOverride   an override cannot reach a place where its target runs
 ├── RecomputationError         a function under `checkpoint` did something else when it ran again
 ├── EngineError                no engine fits the values, or the framework's version is not supported
 ├── TargetError                an override names something that cannot be a target
 │    └── UnmatchedOverride     an override had no effect in its block or function
 ├── ExportError                a gradient cannot be written to a file
 ├── LoadError                  a file names code that is not taken from a file, or that is not there
 ├── ExplainError               a flow could not be recorded, or is asked about something that it does not know
 ├── SaliencyError              a saliency map cannot be made of this model, input, target or option
 └── CheckError                 a gradient check could not be carried out
      └── CheckFailed           a gradient check found something wrong

Each message says what came, what was wanted, and what to write.
"""

from __future__ import annotations


class PullbackError(Exception):
    """The root of all errors of pullback.

    >>> issubclass(RuleResultError, PullbackError)
    True
    """

    # Frameworks that rewrite Python keep the class of an error made like any other, and hide one that is not.
    __init__ = Exception.__init__


class RuleError(PullbackError):
    """A rule cannot be used as it was written."""


class RuleSignatureError(RuleError, TypeError):
    """A rule asks for something that is not on offer."""


class RuleResultError(RuleError, ValueError, TypeError):
    """A rule returned something that does not fit the inputs.

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> halves = pb.with_gradient(tf.sin, lambda dy: 0.5)
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = halves(x)
    >>> tape.gradient(y, x)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    pullback.errors.RuleResultError: ...
    """


class NotLinearError(RuleError):
    """Forward mode needs a rule that is linear in its upstream, and of which nothing is hidden from differentiation."""


class ArgumentError(PullbackError, ValueError):
    """A ready-made function was given something that it does not take."""


class NotConverged(PullbackError, ArithmeticError):
    """An equation was not solved to its tolerance."""


class ExternalError(PullbackError, RuntimeError):
    """Code behind `pb.functions.external` failed, or returned what was not promised."""


class BodyResultError(PullbackError, TypeError):
    """A function under `custom_gradient` returned no backward function."""


class UnsupportedError(PullbackError, NotImplementedError):
    """The engine cannot do this."""


class RecomputationError(PullbackError):
    """A function under `checkpoint` did something else when it ran again."""


class UnreachableOverride(UnsupportedError):
    """An override cannot reach a place where its target runs.

    >>> import pullback as pb
    >>> import tensorflow as tf
    >>> with pb.override({"ArgMax": lambda dy: dy}):
    ...     index = tf.argmax([1.0, 2.0])
    Traceback (most recent call last):
    pullback.errors.UnreachableOverride: the rule for 'ArgMax' has no effect: ...
    """


class EngineError(PullbackError, RuntimeError):
    """No engine fits the values, or the framework's version is not supported."""


class TargetError(PullbackError, ValueError):
    """An override names something that cannot be a target."""


class UnmatchedOverride(TargetError):
    """An override had no effect in its block or function.

    >>> import pullback as pb
    >>> import tensorflow as tf
    >>> with pb.override({tf.nn.relu: lambda dy: dy}):
    ...     y = tf.nn.relu6([1.0, 2.0])
    Traceback (most recent call last):
    pullback.errors.UnmatchedOverride: tf.nn.relu did not run here...
    """


class ExportError(PullbackError, RuntimeError):
    """A gradient cannot be written to a file."""


class LoadError(PullbackError, ValueError):
    """A file names code that is not taken from a file, or that is not there.

    >>> import keras, pullback as pb
    >>> layer = pb.keras.StraightThrough.from_config(
    ...     {"function": {"config": {"described": "os:system"}}}
    ... )
    Traceback (most recent call last):
    pullback.errors.LoadError: the file names 'system' of os, ...
    """


class ExplainError(PullbackError, ValueError):
    """A flow could not be recorded, or is asked about something that it does not know."""


class SaliencyError(PullbackError, ValueError):
    """A saliency map cannot be made of this model, input, target or option."""


class CheckError(PullbackError, ValueError):
    """A gradient check could not be carried out."""


class CheckFailed(CheckError, AssertionError):
    """A gradient check found something wrong; the message is the report.

    >>> pb.check(tf.round, tf.constant([0.3]), against=tf.identity).raise_if_failed()
    Traceback (most recent call last):
    ...
    pullback.errors.CheckFailed: ✗ round: the gradient for `x` is missing ...
    """


class Mismatch(Exception):
    """What a rule returned does not fit; the text says what came and what was wanted. Becomes a RuleResultError."""
