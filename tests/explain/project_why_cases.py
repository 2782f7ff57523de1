"""Real functions whose gradient is missing or zero: the third set, as people write them in projects."""

# ruff: noqa: E731, F841, RET505, SIM108
from __future__ import annotations

import functools
import math

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from tests.explain.why_cases import Case, vector

CASES: dict[str, Case] = {}


def case(*words: str):
    def add(make):
        CASES[make.__name__] = Case(make, words)
        return make

    return add


@case("tf.stop_gradient")
def gan_generator():
    g = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="gen")])
    d = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="dis")])

    def f(z):
        fake = tf.stop_gradient(g(z))  # HERE
        return tf.reduce_mean(d(fake))

    return f, [tf.ones([3, 2])], g.layers[0].kernel


@case("has a gradient")
def gan_discriminator():
    g = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="gen2")])
    d = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="dis2")])

    def f(z):
        fake = tf.stop_gradient(g(z))
        return tf.reduce_mean(d(fake))

    return f, [tf.ones([3, 2])], d.layers[0].kernel


@case("has a gradient")
def whole_model_by_name():
    m = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(2, name="alpha"),
            keras.layers.Dense(1, name="omega"),
        ]
    )
    return m, [tf.ones([3, 2])], "omega"


@case("true or false")
def masked_language_model():
    @tf.function
    def f(logits, threshold):
        keep = tf.cast(tf.greater_equal(logits, threshold), tf.float32)  # HERE
        return tf.reduce_sum(logits * keep)

    return f, [vector(), tf.constant(0.5)], "threshold"


@case("`//`|tf.floor|step|constant between")
def bucket_index():
    def f(x):
        k = tf.math.floordiv(x, 0.3)  # HERE
        return tf.reduce_sum(k * 2.0)

    return f, [vector()], "x"


@case("tf.cast", "integers")
def hashed():
    def f(x, emb):
        ids = tf.cast(tf.math.floor(x), tf.int32) % 3
        return tf.reduce_sum(tf.nn.embedding_lookup(emb, ids))

    return f, [vector(), tf.ones([3, 2])], "x"


@case("indices|tf.argmax")
def one_hot_of_argmax_layer():
    class Hard(keras.layers.Layer):
        def call(self, x):
            return tf.one_hot(tf.argmax(x, -1), 3)  # HERE

    m = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3), Hard(), keras.layers.Dense(1)])
    return m, [tf.ones([2, 3])], m.layers[0].kernel


@case("NumPy")
def pandas_like_mean():
    def f(x):
        m = np.mean([float(v) for v in x])  # HERE
        return tf.constant(m, tf.float32) * 3.0

    return f, [vector()], "x"


@case("NumPy")
def a_foreign_function():
    erf = np.vectorize(math.erf)

    def f(x):
        y = erf(x.numpy())  # HERE
        return tf.reduce_sum(y)

    return f, [vector()], "x"


@case("NumPy")
def class_method_numpy():
    class Loss:
        def __call__(self, y, p):
            err = np.abs(y.numpy() - p.numpy())  # HERE
            return tf.reduce_mean(err)

    return Loss(), [vector(), vector(1.0, 2.0, 3.0)], "p"


@case("Python|NumPy")
def py_function_op_numpy_in_graph():
    @tf.function
    def f(x):
        y = tf.numpy_function(lambda a: np.cumsum(a), [x], tf.float32)  # HERE
        y = tf.ensure_shape(y, [3])
        return tf.reduce_sum(y)

    return f, [vector()], "x"


@case("custom gradient", "zeros")
def pb_rule_zero():
    sq = pb.with_gradient(tf.square, lambda dy: tf.zeros_like(dy))

    def f(x):
        return tf.reduce_sum(sq(x))  # HERE

    return f, [vector()], "x"


@case("custom gradient", "None")
def custom_none_in_keras_layer():
    @tf.custom_gradient
    def quant(w, s):
        def grad(dy):
            return dy, None

        return tf.round(w / s) * s, grad

    class Q(keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=(3, 2), name="w")
            self.s = self.add_weight(shape=(), initializer="ones", name="s")

        def call(self, x):
            return x @ quant(tf.identity(self.w.value), tf.identity(self.s.value))  # HERE

    q = Q(name="quant")
    q.build((None, 3))
    return q, [tf.ones([2, 3])], q.s


@case("zero", "relu")
def dying_conv():
    m = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Conv2D(2, 3, name="c1"),
            keras.layers.Conv2D(
                2,
                1,
                activation="relu",
                bias_initializer=keras.initializers.Constant(-50.0),
                name="c2",
            ),
            keras.layers.Flatten(),
        ]
    )
    return m, [tf.ones([1, 4, 4, 1])], m.layers[0].kernel


@case("zero", "zero")
def attention_zero_values():
    def f(q, k, v):
        w = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
        return tf.reduce_sum(tf.matmul(w, v))  # HERE

    return f, [tf.ones([2, 3]), tf.random.stateless_normal([2, 3], [1, 2]), tf.zeros([2, 3])], "q"


@case("zero", "saturated")
def sigmoid_ce_saturated():
    def f(x):
        p = tf.sigmoid(x)  # HERE
        return tf.reduce_mean((p - 1.0) ** 2 + p)

    return f, [vector(-500.0, -400.0)], "x"


@case("zero", "clip")
def clipped_log_prob():
    def f(lp):
        ratio = tf.exp(lp)
        return tf.reduce_mean(tf.clip_by_value(ratio, 0.8, 1.2))  # HERE

    return f, [vector(5.0, 6.0)], "lp"


@case("zero", "tf.where|selects the other")
def masked_where():
    def f(x, mask):
        return tf.reduce_sum(tf.where(mask, x, tf.zeros_like(x)))  # HERE

    return f, [vector(), tf.constant([False, False, False])], "x"


@case("zero", "zero")
def dropout_rate_one():
    def f(x, keep):
        y = x * tf.cast(tf.random.uniform([3]) < keep, tf.float32)  # HERE
        return tf.reduce_sum(y)

    return f, [vector(), tf.constant(0.0)], "x"


@case("zero", "underflow|too small")
def float16_underflow():
    def f(x):
        h = tf.cast(x, tf.float16)
        y = h * 1e-4  # HERE
        z = y * 1e-4
        return tf.reduce_sum(z)

    return f, [vector(1.0, 2.0)], "x"


@case("not taken")
def match_on_mode():
    w1, w2 = tf.Variable(1.0, name="w1"), tf.Variable(1.0, name="w2")

    def f(x, mode="a"):
        if mode == "a":
            return tf.reduce_sum(x * w1)
        elif mode == "b":
            return tf.reduce_sum(x * w2)  # HERE
        raise ValueError(mode)

    return f, [vector()], w2


@case("not taken")
def tf_case():
    w = tf.Variable(1.0, name="w")

    @tf.function
    def f(x):
        return tf.case(
            [(tf.reduce_sum(x) > 1e3, lambda: tf.reduce_sum(x * w))],  # HERE
            default=lambda: tf.reduce_sum(x),
        )

    return f, [vector()], w


@case("not taken")
def early_stop():
    w = tf.Variable(1.0, name="w")

    def f(x):
        if tf.reduce_sum(x) < 1e3:
            return tf.reduce_sum(x)
        y = x * w  # HERE
        return tf.reduce_sum(y)

    return f, [vector()], w


@case("not taken|named")
def helper_not_called():
    w = tf.Variable(1.0, name="w")

    def regulariser():
        return 0.1 * w**2  # HERE

    def f(x, reg=False):
        loss = tf.reduce_sum(x)
        if reg:
            loss += regulariser()
        return loss

    return f, [vector()], w


@case("not trainable|frozen")
def lora():
    d = keras.layers.Dense(3, name="lora")
    d.build((None, 3))
    d.enable_lora(1)

    def f(x):
        return tf.reduce_sum(d(x))

    return f, [tf.ones([2, 3])], d._kernel


@case("assign")
def ema_teacher():
    student = tf.Variable([1.0, 1.0, 1.0], name="student")
    teacher = tf.Variable([0.0, 0.0, 0.0], name="teacher")

    def f(x):
        teacher.assign(0.5 * teacher + 0.5 * student)  # HERE
        return tf.reduce_sum(teacher * x)

    return f, [vector()], student


@case("does not reach the result")
def metric_only():
    def f(pred, target):
        err = pred - target
        mae = tf.reduce_mean(tf.abs(err))  # HERE
        return tf.reduce_sum(target**2)

    return f, [vector(), vector()], "pred"


@case("only its shape is used")
def batch_size_only():
    @tf.function
    def f(x, w):
        n = tf.cast(tf.shape(x)[0], tf.float32)  # HERE
        return tf.reduce_sum(w) / n

    return f, [vector(), vector()], "x"


@case("has a gradient")
def gather_values():
    def f(x):
        return tf.reduce_sum(tf.gather(x, tf.argsort(x)) * tf.range(3.0))

    return f, [vector()], "x"


@case("has a gradient")
def ragged():
    def f(x):
        r = tf.RaggedTensor.from_row_lengths(x, [1, 2])
        return tf.reduce_sum(tf.reduce_sum(r, axis=1) ** 2)

    return f, [vector()], "x"


@case("has a gradient")
def jit_compiled():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.reduce_sum(tf.sin(x) ** 2)

    return f, [vector()], "x"


@case("tf.round")
def nested_structure():
    def f(net, x):
        h = x
        for layer in net["layers"]:
            h = tf.tanh(h * tf.round(layer["w"]) + layer["b"])  # HERE
        return tf.reduce_sum(h)

    return (
        f,
        [{"layers": [{"w": vector(), "b": vector()}, {"w": vector(), "b": vector()}]}, vector()],
        'net["layers"][1]["w"]',
    )


@case("tf.stop_gradient")
def keras_functional_stop():
    i = keras.Input((3,))
    h = keras.layers.Dense(2, name="below")(i)
    o = keras.layers.Dense(1)(keras.layers.Lambda(lambda t: tf.stop_gradient(t))(h))  # HERE
    m = keras.Model(i, o)
    return m, [tf.ones([2, 3])], m.get_layer("below")


@case("tf.sign", "zero")
def sign_in_loop():
    @tf.function
    def f(x):
        i = tf.constant(0)
        while i < 2:
            x = tf.sign(x) * 2.0  # HERE
            i += 1
        return tf.reduce_sum(x)

    return f, [vector()], "x"


@case("tf.math.ceil")
def ceil_eager_twice():
    def f(x):
        a = tf.math.ceil(x)  # HERE
        b = a * 2.0
        return tf.reduce_sum(b * a)

    return f, [vector()], "x"


@case("random|indices|categorical")
def gumbel_sample():
    def f(logits):
        k = tf.random.categorical([logits], 5)  # HERE
        return tf.reduce_mean(tf.cast(k, tf.float32))

    return f, [vector()], "logits"


def mlp():
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="relu", name="h"),
            keras.layers.Dense(2, name="o"),
        ]
    )


@case("true or false")
def accuracy_as_loss():
    m = mlp()

    def f(x, y):
        hits = tf.cast(m(x) > y, tf.float32)  # HERE
        return 1.0 - tf.reduce_mean(hits)

    return f, [tf.ones([2, 3]), tf.ones([2, 2])], m.layers[0].kernel


@case("tf.argmax")
def train_step_argmax():
    class M(keras.Model):
        def __init__(self):
            super().__init__()
            self.d = keras.layers.Dense(3)
            self.d.build((None, 3))

        def call(self, x):
            return self.d(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                p = tf.argmax(self(x), -1)  # HERE
                loss = tf.reduce_mean((tf.cast(p, tf.float32) - y) ** 2)
            g = tape.gradient(loss, self.trainable_variables)
            return {"loss": loss}

    m = M()
    m.compile("sgd")
    return m.train_step, [(tf.ones([2, 3]), tf.ones([2]))], m.d.kernel


@case("tf.stop_gradient")
def module_method():
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([1.0, 2.0, 3.0], name="w")

        @tf.function
        def loss(self, x):
            y = self.w * x
            base = tf.stop_gradient(y)  # HERE
            return tf.reduce_sum(base**2)

    net = Net()

    def f(x):
        return net.loss(x)

    return f, [vector()], net.w


@case("tf.round")
def in_partial():
    def g(scale, x):
        return tf.reduce_sum(tf.round(x * scale))  # HERE

    return functools.partial(g, 2.0), [vector()], "x"


@case("tf.floor|tf.math.floor")
def lambda_function():
    f = lambda x: tf.reduce_sum(tf.floor(x) + 1.0)  # HERE
    return f, [vector()], "x"


@case("tf.cast", "integers")
def positional_lookup():
    table = tf.Variable(tf.ones([10, 2]), name="table")

    @tf.function
    def f(pos):
        idx = tf.cast(tf.clip_by_value(pos, 0.0, 9.0), tf.int64)  # HERE
        return tf.reduce_sum(tf.nn.embedding_lookup(table, idx))

    return f, [vector(1.0, 2.0)], "pos"


@case("NumPy")
def print_and_rebuild():
    def f(x):
        arr = np.array(x)  # HERE
        arr[0] = 0.0
        return tf.reduce_sum(tf.Variable(arr) ** 2)

    return f, [vector(1.0, 2.0)], "x"


@case("not taken")
def try_except_branch():
    w = tf.Variable(2.0, name="w")

    def f(x):
        try:
            y = tf.reduce_sum(x)
        except ValueError:
            y = tf.reduce_sum(x) * w  # HERE
        return y

    return f, [vector()], w


@case("not taken")
def model_flag_attr():
    class Skip(keras.layers.Layer):
        def __init__(self, use):
            super().__init__()
            self.use = use

        def build(self, s):
            self.gate = self.add_weight(shape=(3,), name="gate")

        def call(self, x):
            if self.use:
                x = x * self.gate  # HERE
            return x

    s = Skip(False)
    s.build((None, 3))
    m = keras.Sequential([keras.Input((3,)), s, keras.layers.Dense(1)])
    return m, [tf.ones([2, 3])], s.gate


@case("custom gradient", "zeros")
def blocked_layer():
    @tf.custom_gradient
    def block(x):
        return x, lambda dy: dy * 0.0

    m = mlp()

    def f(x):
        return tf.reduce_sum(block(m(x)))  # HERE

    return f, [tf.ones([2, 3])], m.layers[1].kernel


@case("zero", "relu")
def loss_option():
    m = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, name="a"), keras.layers.ReLU(name="r")]
    )
    m.layers[0].bias.assign([-1e3] * 4)

    def f(x):
        return tf.reduce_mean(m(x))

    return f, [tf.ones([2, 3])], "a"


@case("zero", "zero")
def product_of_zeros():
    def f(a, b, c):
        return tf.reduce_sum(a * b * c)  # HERE

    return f, [vector(), tf.zeros([3]), vector()], "a"


@case("zero", "saturated|tanh")
def deep_tanh():
    @tf.function
    def f(x):
        for _ in range(3):
            x = tf.tanh(x * 100.0)
        return tf.reduce_sum(x)

    return f, [vector(1.0, 2.0)], "x"


@case("has a gradient")
def checkpointed():
    g = tf.recompute_grad(lambda x: tf.sin(x) ** 2)

    def f(x):
        return tf.reduce_sum(g(x))

    return f, [vector()], "x"


@case("has a gradient")
def gru():
    layer = keras.layers.GRU(2, name="gru")
    layer.build((None, 3, 2))
    return layer, [tf.ones([1, 3, 2])], layer


@case("has a gradient")
def attention():
    layer = keras.layers.MultiHeadAttention(2, 2, name="mha")
    layer.build((None, 3, 4), (None, 3, 4))

    def f(x):
        return tf.reduce_sum(layer(x, x))

    return f, [tf.random.stateless_normal([1, 3, 4], [1, 2])], "x"


@case("assign")
def cached_activation():
    class Cache(tf.Module):
        def __init__(self):
            super().__init__()
            self.last = tf.Variable(tf.zeros([3]), trainable=False)

        def __call__(self, x):
            self.last.assign(tf.sin(x))  # HERE
            return tf.reduce_sum(self.last + 1.0)

    return Cache(), [vector()], "x"


@case("does not use it|named|another value")
def wrong_name():
    def f(x, w, b):
        y = x * b
        y = y + b
        return tf.reduce_sum(y)

    return f, [vector(), vector(), vector()], "w"


@case("does not reach the result")
def overwritten():
    def f(x, w):
        y = x * w  # HERE
        y = x * 2.0
        return tf.reduce_sum(y)

    return f, [vector(), vector()], "w"


@case("tiny")
def vanishing_rnn():
    def f(x):
        h = x
        for _ in range(30):
            h = 0.3 * tf.tanh(h)
        return tf.reduce_sum(h)

    return f, [vector()], "x"


@case("top_k")
def median():
    def f(x):
        i = tf.math.top_k(x, 3).indices  # HERE
        return tf.reduce_sum(tf.cast(i, tf.float32))

    return f, [vector()], "x"


@case("tf.strings|AsString|text")
def formatted():
    def f(x):
        s = tf.strings.as_string(tf.reduce_sum(x))  # HERE
        return tf.strings.to_number(s) * 2.0

    return f, [vector()], "x"


@case("not trainable")
def untrainable_in_module():
    class P(tf.Module):
        def __init__(self):
            super().__init__()
            self.c = tf.Variable([1.0, 1.0, 1.0], trainable=False, name="c")

        def __call__(self, x):
            return tf.reduce_sum(self.c * x)

    p = P()
    return p, [vector()], p.c


@case("has a gradient")
def complex_numbers():
    def f(x):
        z = tf.signal.fft(tf.cast(x, tf.complex64))
        return tf.reduce_sum(tf.abs(z) ** 2)

    return f, [vector()], "x"


@case("tf.stop_gradient")
def nested_conds():
    @tf.function
    def f(x):
        if tf.reduce_sum(x) > -100.0:
            if tf.reduce_sum(x) < 100.0:
                y = tf.stop_gradient(x) * 3.0  # HERE
            else:
                y = x
        else:
            y = x * 2.0
        return tf.reduce_sum(y)

    return f, [vector()], "x"
