"""One small vocabulary of array operations in three frameworks, and a custom gradient in each."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

Rule = Callable[..., Any]


def tensorflow() -> SimpleNamespace:
    """The vocabulary in TensorFlow."""
    import tensorflow as tf

    def gather(x: Any, index: Any, axis: int = -1) -> Any:
        return tf.gather(x, index, axis=axis)

    def attach(forward: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
        @tf.custom_gradient
        def fn(*xs: Any) -> Any:
            ys = forward(*xs)

            def pullback(*dys: Any) -> Any:
                return rule(dys if isinstance(ys, tuple) else dys[0], xs, ys)

            return ys, pullback

        return fn

    return SimpleNamespace(
        name="tensorflow",
        exp=tf.exp,
        log=tf.math.log,
        sin=tf.sin,
        cos=tf.cos,
        tanh=tf.tanh,
        sqrt=tf.sqrt,
        abs=tf.abs,
        erf=tf.math.erf,
        atan=tf.atan,
        sign=tf.sign,
        where=tf.where,
        sum=lambda x, axis=None, keep=False: tf.reduce_sum(x, axis, keep),
        max=lambda x, axis=None, keep=False: tf.reduce_max(x, axis, keep),
        matmul=tf.matmul,
        swap=tf.linalg.matrix_transpose,
        reshape=tf.reshape,
        stack=tf.stack,
        concat=tf.concat,
        gather=gather,
        cumsum=lambda x, axis=-1: tf.cumsum(x, axis),
        flip=lambda x, axis=-1: tf.reverse(x, [axis]),
        argsort=lambda x: tf.argsort(x, stable=True),
        stop=tf.stop_gradient,
        maximum=tf.maximum,
        minimum=tf.minimum,
        zeros=tf.zeros_like,
        ones=tf.ones_like,
        shape=lambda x: tuple(x.shape),
        roll=lambda x: tf.roll(x, 1, -1),
        size=lambda x: int(np.prod(x.shape)),
        cast=lambda x, kind: tf.cast(x, kind),
        like=lambda x, y: tf.cast(x, y.dtype),
        array=lambda x, dtype: tf.constant(x, dtype),
        attach=attach,
        none=None,
        values=lambda x: np.asarray(x),
    )


def torch() -> SimpleNamespace:
    """The vocabulary in PyTorch."""
    t = importlib.import_module("torch")
    kinds = {"float32": t.float32, "float64": t.float64, "bfloat16": t.bfloat16}

    def reduce(name: str) -> Callable[..., Any]:
        def call(x: Any, axis: Any = None, keep: bool = False) -> Any:
            fn = getattr(t, name)
            return fn(x) if axis is None else fn(x, dim=axis, keepdim=keep)

        return call

    def attach(forward: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
        class Function(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *xs: Any) -> Any:
                ctx.save_for_backward(*xs)
                return forward(*xs)

            @staticmethod
            def backward(ctx: Any, *dys: Any) -> Any:
                xs = ctx.saved_tensors
                ys = forward(*xs)
                return rule(dys if isinstance(ys, tuple) else dys[0], xs, ys)

        return Function.apply

    return SimpleNamespace(
        name="torch",
        exp=t.exp,
        log=t.log,
        sin=t.sin,
        cos=t.cos,
        tanh=t.tanh,
        sqrt=t.sqrt,
        abs=t.abs,
        erf=t.erf,
        atan=t.atan,
        sign=t.sign,
        where=lambda c, a, b: t.where(c, a, b),
        sum=reduce("sum"),
        max=reduce("amax"),
        matmul=t.matmul,
        swap=lambda x: x.transpose(-1, -2),
        reshape=t.reshape,
        stack=lambda xs, axis=0: t.stack(list(xs), axis),
        concat=lambda xs, axis: t.cat(list(xs), axis),
        gather=lambda x, i, axis=-1: t.index_select(x, axis, t.as_tensor(np.asarray(i))),
        cumsum=lambda x, axis=-1: t.cumsum(x, axis),
        flip=lambda x, axis=-1: t.flip(x, [axis]),
        argsort=lambda x: t.argsort(x, stable=True),
        stop=lambda x: x.detach(),
        maximum=t.maximum,
        minimum=t.minimum,
        zeros=t.zeros_like,
        ones=t.ones_like,
        shape=lambda x: tuple(x.shape),
        roll=lambda x: t.roll(x, 1, -1),
        size=lambda x: x.numel(),
        cast=lambda x, kind: x.to(kinds[kind]),
        like=lambda x, y: x.to(y.dtype),
        array=lambda x, dtype: t.tensor(x, dtype=kinds[dtype]),
        attach=attach,
        none=None,
        values=lambda x: x.detach().numpy(),
    )


def jax() -> SimpleNamespace:
    """The vocabulary in JAX."""
    j = importlib.import_module("jax")
    j.config.update("jax_enable_x64", True)
    jnp, lax = j.numpy, j.lax

    def attach(forward: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
        @j.custom_vjp
        def fn(*xs: Any) -> Any:
            return forward(*xs)

        def backward(xs: Sequence[Any], dys: Any) -> Any:
            found = rule(dys, tuple(xs), forward(*xs))
            return tuple(
                jnp.zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)
            )

        fn.defvjp(lambda *xs: (forward(*xs), xs), backward)
        return fn

    return SimpleNamespace(
        name="jax",
        exp=jnp.exp,
        log=jnp.log,
        sin=jnp.sin,
        cos=jnp.cos,
        tanh=jnp.tanh,
        sqrt=jnp.sqrt,
        abs=jnp.abs,
        erf=j.scipy.special.erf,
        atan=jnp.arctan,
        sign=jnp.sign,
        where=jnp.where,
        sum=lambda x, axis=None, keep=False: jnp.sum(x, axis, keepdims=keep),
        max=lambda x, axis=None, keep=False: jnp.max(x, axis, keepdims=keep),
        matmul=jnp.matmul,
        swap=lambda x: jnp.swapaxes(x, -1, -2),
        reshape=jnp.reshape,
        stack=lambda xs, axis=0: jnp.stack(xs, axis),
        concat=lambda xs, axis: jnp.concatenate(xs, axis),
        gather=lambda x, i, axis=-1: jnp.take(
            x, np.asarray(i) if not hasattr(i, "aval") else i, axis=axis
        ),
        cumsum=lambda x, axis=-1: jnp.cumsum(x, axis),
        flip=lambda x, axis=-1: jnp.flip(x, axis),
        argsort=lambda x: jnp.argsort(x, stable=True),
        stop=lax.stop_gradient,
        maximum=jnp.maximum,
        minimum=jnp.minimum,
        zeros=jnp.zeros_like,
        ones=jnp.ones_like,
        shape=lambda x: tuple(x.shape),
        roll=lambda x: jnp.roll(x, 1, -1),
        size=lambda x: x.size,
        cast=lambda x, kind: x.astype(kind),
        like=lambda x, y: x.astype(y.dtype),
        array=lambda x, dtype: jnp.asarray(x, dtype),
        attach=attach,
        none=None,
        values=lambda x: np.asarray(x),
    )
