"""More real functions whose gradient is missing or zero, written after the words were fixed."""

# ruff: noqa: F841, RET504
from __future__ import annotations

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


class Affine(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([1.0, 2.0, 3.0], name="w")
        self.b = tf.Variable(0.5, name="b")

    def __call__(self, x):
        y = self.w * x
        return tf.reduce_sum(tf.round(y) + self.b)  # ROUND


@case("tf.round")
def a_module_that_rounds():
    module = Affine()
    return module, [vector()], module.w


@case("has a gradient")
def the_other_variable_of_a_module_that_rounds():
    module = Affine()
    return module, [vector()], module.b


@case("tf.cast", "integers")
def quantised_weights():
    def quantise(w):
        scaled = w * 127.0
        q = tf.cast(tf.clip_by_value(scaled, -128.0, 127.0), tf.int8)  # HERE
        return tf.cast(q, tf.float32) / 127.0

    def f(x, w):
        return tf.reduce_mean((quantise(w) * x) ** 2)

    return f, [vector(), vector()], "w"


@case("true or false")
def hard_accuracy():
    def f(logits, labels):
        predictions = tf.cast(logits > 0.0, tf.float32)  # HERE
        return 1.0 - tf.reduce_mean(tf.cast(tf.equal(predictions, labels), tf.float32))

    return f, [vector(), vector(1.0, 0.0, 1.0)], "logits"


@case("indices")
def sampling_from_a_categorical():
    def f(logits, values):
        sample = tf.random.categorical(logits[None], 1)[0, 0]  # HERE
        return tf.gather(values, sample)

    return f, [vector(), vector(1.0, 2.0, 3.0)], "logits"


@case("tf.stop_gradient")
def a_target_network():
    online = tf.Variable([1.0, 1.0, 1.0], name="online")
    target = tf.Variable([2.0, 2.0, 2.0], name="target")

    @tf.function
    def f(x):
        q = tf.reduce_sum(online * x)
        goal = tf.reduce_sum(target * x) * 0.9
        return (q - tf.stop_gradient(goal)) ** 2  # HERE

    return f, [vector()], target


@case("tf.stop_gradient")
def a_straight_through_estimator_the_wrong_way():
    def f(x):
        y = tf.stop_gradient(x + (tf.round(x) - x))  # HERE
        return tf.reduce_sum(y**2)

    return f, [vector()], "x"


@case("has a gradient")
def a_straight_through_estimator_the_right_way():
    def f(x):
        y = x + tf.stop_gradient(tf.round(x) - x)
        return tf.reduce_sum(y**2)

    return f, [vector()], "x"


@case("tf.stop_gradient")
def a_layer_that_stops():
    class Cut(keras.layers.Layer):
        def call(self, x):
            return keras.ops.stop_gradient(x)  # HERE

    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2), Cut(), keras.layers.Dense(1)]
    )
    return model, [tf.ones([2, 3])], model.layers[0].kernel


@case("NumPy|Python")
def python_arithmetic_with_math():
    def f(x):
        scale = math.exp(x[0])  # HERE
        return tf.reduce_sum(tf.constant([1.0, 2.0]) * scale)

    return f, [vector()], "x"


@case("NumPy")
def numpy_in_a_helper():
    def standardise(a):
        return (a - np.mean(a)) / np.std(a)  # HERE

    def f(x):
        z = standardise(x.numpy())  # HERE
        return tf.reduce_sum(tf.convert_to_tensor(z) ** 3)

    return f, [vector()], "x"


@case("NumPy")
def a_list_of_python_numbers():
    def f(x):
        rows = x.numpy().tolist()  # HERE
        doubled = [2.0 * r for r in rows]
        return tf.reduce_sum(tf.constant(doubled))

    return f, [vector()], "x"


@case("NumPy")
def a_variable_read_by_numpy():
    w = tf.Variable([1.0, 2.0, 3.0], name="w")

    def f(x):
        frozen = w.numpy() * 2.0  # HERE
        return tf.reduce_sum(x * frozen)

    return f, [vector()], w


@case("tf.py_function|NumPy|Python|PyFunc")
def a_py_function_with_numpy_inside():
    def body(a):
        return np.sin(a.numpy())

    def f(x):
        y = tf.py_function(body, [x], tf.float32)  # HERE
        return tf.reduce_sum(y)

    return f, [vector()], "x"


@case("assign")
def a_moving_average():
    average = tf.Variable([0.0, 0.0, 0.0], trainable=False, name="average")

    def f(x):
        average.assign(0.9 * average + 0.1 * x)  # HERE
        return tf.reduce_sum(average**2)

    return f, [vector()], "x"


@case("assign")
def a_buffer_filled_in_a_loop():
    buffer = tf.Variable(tf.zeros([3]), name="buffer")

    @tf.function
    def f(x):
        for k in tf.range(3):
            buffer.scatter_nd_update([[k]], [x[k] * 2.0])  # HERE
        return tf.reduce_sum(buffer * 1.0)

    return f, [vector()], "x"


@case("not taken")
def a_switch_case():
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")

    @tf.function
    def f(x, k):
        return tf.switch_case(
            k,
            [
                lambda: tf.reduce_sum(x * a),
                lambda: tf.reduce_sum(x * b),  # HERE
            ],
        )

    return f, [vector(), tf.constant(0)], b


@case("not taken")
def a_training_flag():
    class Noisy(keras.Model):
        def __init__(self):
            super().__init__()
            self.main, self.extra = keras.layers.Dense(1), keras.layers.Dense(1, name="extra")
            self.main.build((None, 3))
            self.extra.build((None, 3))

        def call(self, x, training=False):
            y = self.main(x)
            if training:
                y = y + self.extra(x)  # HERE
            return y

    model = Noisy()
    return model, [tf.ones([2, 3])], model.extra.kernel


@case("loop that never ran")
def a_loop_that_does_not_run():
    def f(x, w):
        y = x
        for _ in range(0):
            y = y * w  # HERE
        return tf.reduce_sum(y)

    return f, [vector(), tf.constant(2.0)], "w"


@case("not taken")
def a_conditional_expression():
    def f(x, w, use=False):
        y = x * w if use else x  # HERE
        return tf.reduce_sum(y)

    return f, [vector(), tf.constant(2.0)], "w"


@case("not taken")
def a_conditional_expression_in_autograph():
    w = tf.Variable(3.0, name="w")

    @tf.function
    def f(x):
        total = tf.reduce_sum(x)
        if total < 0.0:
            total = total - 1.0
        elif total > 1e6:
            total = total * w  # HERE
        return total

    return f, [vector(1.0, 2.0)], w


@case("custom gradient", "None")
def a_custom_gradient_around_a_closed_over_tensor():
    w = tf.constant([1.0, 2.0, 3.0])

    def f(x, w):
        @tf.custom_gradient
        def scaled(a):
            def grad(dy):
                return dy * w

            return a * w, grad

        return tf.reduce_sum(scaled(x))  # HERE

    return f, [vector(), w], "w"


@case("override", "zeros")
def an_override_of_a_function():
    def f(x):
        return tf.reduce_sum(tf.nn.elu(x))  # HERE

    blocked = pb.override({tf.nn.elu: lambda dy: tf.zeros_like(dy)})(f)
    return blocked, [vector()], "x"


@case("custom gradient", "zeros")
def a_gradient_reversal_with_zero_lambda():
    @tf.custom_gradient
    def reverse(a, strength):
        def grad(dy):
            return -strength * dy, None

        return tf.identity(a), grad

    @tf.function
    def f(x):
        return tf.reduce_sum(reverse(x, 0.0) ** 2)  # HERE

    return f, [vector()], "x"


@case("zero", "relu")
def a_dead_relu_by_keras_ops():
    def f(x):
        hidden = keras.ops.relu(-keras.ops.abs(x) - 1.0)  # HERE
        return keras.ops.sum(hidden)

    return f, [vector()], "x"


@case("zero", "relu6|clip")
def a_saturated_relu6():
    def f(x):
        return tf.reduce_sum(tf.nn.relu6(x * 100.0))  # HERE

    return f, [vector(1.0, 2.0)], "x"


@case("zero", "clips")
def a_saturated_hard_sigmoid():
    def f(x):
        return tf.reduce_sum(keras.activations.hard_sigmoid(x * 100.0))  # HERE

    return f, [vector(1.0, 2.0)], "x"


@case("zero", "saturated")
def a_saturated_cross_entropy():
    def f(logits):
        losses = tf.nn.softmax_cross_entropy_with_logits(tf.constant([1.0, 0.0]), logits)  # HERE
        return losses

    return f, [vector(1000.0, -1000.0)], "logits"


@case("zero", "saturated", "sigmoid")
def a_saturated_gate_in_a_layer():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2),
            keras.layers.Dense(
                2, activation="sigmoid", bias_initializer=keras.initializers.Constant(500.0)
            ),
        ]
    )
    return model, [tf.ones([2, 3])], model.layers[0].kernel


@case("zero", "multiplies it by zero")
def a_gate_that_is_closed():
    gate = tf.Variable(0.0, name="gate")

    @tf.function
    def f(x, branch):
        return tf.reduce_sum(x + gate * branch)  # HERE

    return f, [vector(), vector()], "branch"


@case("zero", "largest")
def a_maximum_taken_elsewhere():
    def f(x):
        both = tf.stack([tf.reduce_sum(x), 1e6])
        return tf.reduce_max(both)  # HERE

    return f, [vector()], "x"


@case("zero", "where")
def an_unselected_branch_in_a_traced_function():
    @tf.function
    def f(x):
        positive = x * x + 1.0
        y = tf.where(positive > 0.0, positive * 0.0 + 3.0, tf.sin(x))
        z = tf.where(tf.ones_like(x) > 0.0, tf.ones_like(x), x)  # HERE
        return tf.reduce_sum(z)

    return f, [vector()], "x"


@case("zero", "lowest|zero in all")
def the_absolute_value_at_zero():
    def f(x):
        return tf.reduce_sum(tf.abs(x))  # HERE

    return f, [vector(0.0, 0.0)], "x"


@case("zero", "derivative 0|0 at all")
def a_cosine_at_zero():
    def f(x):
        return tf.reduce_sum(tf.cos(x))  # HERE

    return f, [vector(0.0, 0.0)], "x"


@case("zero", "underflow")
def a_gaussian_far_away():
    def f(x):
        return tf.reduce_sum(tf.exp(-0.5 * x**2))  # HERE

    return f, [vector(50.0, 60.0)], "x"


@case("int32")
def an_integer_argument_of_a_layer():
    embedding = keras.layers.Embedding(5, 2)
    embedding.build((None,))

    def f(tokens):
        return tf.reduce_sum(embedding(tokens))

    return f, [tf.constant([1, 2])], "tokens"


@case("has a gradient", "zeros")
def an_embedding_that_learns():
    embedding = keras.layers.Embedding(5, 2, name="table")
    embedding.build((None,))

    def f(tokens):
        return tf.reduce_sum(embedding(tokens))

    return f, [tf.constant([1, 2])], embedding


@case("nothing that reaches the result")
def an_auxiliary_output_that_is_dropped():
    def both(x, w):
        main = tf.reduce_sum(x)
        auxiliary = tf.reduce_sum(x * w)
        return main, auxiliary

    @tf.function
    def f(x, w):
        main, _ = both(x, w)  # HERE
        return main

    return f, [vector(), vector()], "w"


@case("another value")
def a_default_that_hides_the_argument():
    fixed = tf.constant([1.0, 2.0, 3.0])

    def f(x, w):
        w = fixed  # HERE
        return tf.reduce_sum(x * w)

    return f, [vector(), vector()], "w"


@case("shape")
def noise_of_the_same_shape():
    def f(x):
        noise = tf.random.normal(tf.shape(x))  # HERE
        return tf.reduce_sum(noise**2)

    return f, [vector()], "x"


@case("Unique|unique")
def unique_values():
    def f(x):
        values, _ = tf.unique(x)  # HERE
        return tf.reduce_sum(values)

    return f, [vector()], "x"


@case("tf.floor")
def the_fraction_inside_a_map():
    def f(x):
        whole = tf.map_fn(lambda a: tf.floor(a), x)  # HERE
        return tf.reduce_sum(whole)

    return f, [vector()], "x"


@case("tf.round")
def rounding_in_vectorized_map():
    def f(x):
        return tf.reduce_sum(tf.vectorized_map(lambda row: tf.round(row) * 2.0, x))  # HERE

    return f, [tf.ones([2, 3])], "x"


@case("not trainable")
def the_statistics_of_a_batch_norm():
    norm = keras.layers.BatchNormalization(name="norm")
    norm.build((None, 3))

    def f(x):
        return tf.reduce_sum(norm(x, training=False) ** 2)

    return f, [tf.ones([2, 3])], norm.moving_mean


@case("tf.round")
def rounding_in_a_loss():
    def rounded_error(y_true, y_pred):
        return tf.reduce_mean(tf.abs(y_true - tf.round(y_pred)))  # HERE

    def f(y_true, y_pred):
        return rounded_error(y_true, y_pred)

    return f, [vector(), vector()], "y_pred"


@case("compare|true or false")
def a_hard_attention_mask():
    def f(query, keys, values):
        scores = tf.linalg.matvec(keys, query)
        best = tf.equal(scores, tf.reduce_max(scores))  # HERE
        return tf.reduce_sum(tf.boolean_mask(values, best))

    return f, [vector(1.0, 2.0), tf.constant([[1.0, 0.0], [0.0, 1.0]]), vector(3.0, 4.0)], "query"


@case("text|string|AsString|tf.strings")
def through_strings():
    def f(x):
        text = tf.strings.as_string(x)  # HERE
        return tf.reduce_sum(tf.strings.to_number(text))

    return f, [vector()], "x"


@case("tf.floor|//|`%`|has a gradient")
def a_remainder():
    def f(x):
        return tf.reduce_sum(x % 1.0)

    return f, [vector()], "x"


@case("tf.round|tf.math.rint")
def keras_ops_round():
    def f(x):
        y = keras.ops.round(x)  # HERE
        return keras.ops.mean(y)

    return f, [vector()], "x"


@case("argmax")
def keras_ops_argmax():
    def f(x):
        k = keras.ops.argmax(x)  # HERE
        return keras.ops.cast(k, "float32") * 2.0

    return f, [vector()], "x"


@case("tf.stop_gradient")
def detach_in_comprehension():
    def f(xs):
        parts = [tf.stop_gradient(x) * 2.0 for x in xs]  # HERE
        return tf.add_n(parts)

    return f, [[vector(), vector()]], "xs[0]"


@case("NumPy")
def item_call():
    def f(x, y):
        a = x.numpy().item()  # HERE
        return tf.reduce_sum(y) * a

    return f, [tf.constant(2.0), vector()], "x"


@case("NumPy|Python")
def int_loop_count():
    def f(n, x):
        y = x
        for _ in range(int(n)):  # HERE
            y = y * 2.0
        return tf.reduce_sum(y)

    return f, [tf.constant(3.0), vector()], "n"


@case("NumPy")
def asarray():
    def f(x):
        a = np.asarray(x)  # HERE
        a = a * a
        return tf.reduce_sum(a)

    return f, [vector()], "x"


@case("NumPy")
def tf_constant_of_variable_value():
    w = tf.Variable([1.0, 2.0, 3.0])

    def f(x):
        ww = tf.constant(w.numpy())  # HERE
        return tf.reduce_sum(ww * x)

    return f, [vector()], w


@case("custom gradient", "None")
def custom_two_inputs_dict():
    @tf.custom_gradient
    def op(a, b, c):
        def grad(dy):
            return dy, None, dy

        return a + b + c, grad

    @tf.function
    def f(a, b, c):
        return tf.reduce_sum(op(a, b, c))  # HERE

    return f, [vector(), vector(), vector()], "b"


@case("has a gradient")
def custom_fine():
    @tf.custom_gradient
    def op(a, b, c):
        def grad(dy):
            return dy, None, dy

        return a + b + c, grad

    def f(a, b, c):
        return tf.reduce_sum(op(a, b, c))

    return f, [vector(), vector(), vector()], "c"


@case("override", "zeros|None")
def override_layer_rule():
    layer = keras.layers.Dense(2, activation="tanh")
    layer.build((None, 3))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, name="low"), layer])
    over = pb.override({"Tanh": lambda dy: tf.zeros_like(dy)})(lambda x: tf.reduce_sum(model(x)))
    return over, [tf.ones([2, 3])], model.layers[0].kernel


@case("zero", "relu")
def dead_leaky_zero():
    def f(x):
        y = tf.nn.relu(tf.nn.relu(x) - 100.0)  # HERE
        return tf.reduce_mean(y**2 + y)

    return f, [vector()], "x"


@case("zero", "clip|maximum|minimum")
def keras_clip():
    def f(x):
        return keras.ops.sum(keras.ops.clip(x, 5.0, 6.0))  # HERE

    return f, [vector()], "x"


@case("zero", "zero")
def mask_all_padding():
    def f(x, mask):
        masked = x * mask  # HERE
        return tf.reduce_sum(masked**2 + masked)

    return f, [vector(), tf.zeros([3])], "x"


@case("zero", "multiplies it by zero")
def loss_weight_zero():
    def f(x):
        weight = 0.0
        main = tf.reduce_sum(x) * weight  # HERE
        return main + 1.0

    return f, [vector()], "x"


@case("zero", "sigmoid", "saturated")
def saturated_lstm_gate():
    def f(x):
        g = tf.sigmoid(x - 1000.0)  # HERE
        return tf.reduce_sum(g * 5.0)

    return f, [vector()], "x"


@case("not taken")
def cond_module():
    class M(tf.Module):
        def __init__(self):
            super().__init__()
            self.a = tf.Variable(1.0)
            self.b = tf.Variable(2.0)

        @tf.function
        def __call__(self, x):
            if tf.reduce_all(x > 0.0):
                return tf.reduce_sum(self.a * x)
            return tf.reduce_sum(self.b * x)  # HERE

    m = M()
    return m, [vector(1.0, 2.0)], m.b


@case("not taken")
def method_flag():
    class Net:
        def __init__(self):
            self.w = tf.Variable([1.0, 1.0, 1.0])
            self.deep = False

        def loss(self, x):
            h = x
            if self.deep:
                h = h * self.w  # HERE
            return tf.reduce_sum(h)

    net = Net()
    return net.loss, [vector()], net.w


@case("loop that never ran")
def while_loop_zero_steps():
    @tf.function
    def f(x, w):
        i = tf.constant(10)
        while i < 5:
            x = x * w  # HERE
            i += 1
        return tf.reduce_sum(x)

    return f, [vector(), tf.constant(2.0)], "w"


@case("not taken|did not run")
def dropout_style():
    def f(x, noise, training=False):
        if training:
            x = x + noise  # HERE
        return tf.reduce_sum(x)

    return f, [vector(), vector()], "noise"


@case("not trainable")
def frozen_submodel():
    base = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.ReLU()])
    base.trainable = False
    i = keras.Input((3,))
    model = keras.Model(i, keras.layers.Dense(1)(base(i)))
    return model, [tf.ones([2, 3])], base.layers[0].kernel


@case("not trainable")
def frozen_embedding():
    e = keras.layers.Embedding(4, 2, trainable=False)
    e.build((None,))

    def f(t):
        return tf.reduce_sum(e(t))

    return f, [tf.constant([0, 1])], e.embeddings


@case("assign")
def variable_made_of_x():
    v = tf.Variable(tf.zeros([3]))

    @tf.function
    def f(x):
        h = tf.tanh(x)
        v.assign(h)  # HERE
        return tf.reduce_sum(tf.square(v.read_value()))

    return f, [vector()], "x"


@case("assign|Variable|variable")
def new_variable_in_function():
    def f(x):
        v = tf.Variable(x)  # HERE
        return tf.reduce_sum(v * 2.0)

    return f, [vector()], "x"


@case("does not reach the result")
def wrong_variable_returned():
    def f(x, w):
        hidden = x * w
        out = tf.tanh(hidden)  # HERE
        return tf.reduce_sum(x)

    return f, [vector(), vector()], "w"


@case("Lu|lu|no gradient")
def lu_decomposition():
    def f(a):
        lu, _ = tf.linalg.lu(a)  # HERE
        return tf.reduce_sum(lu)

    return f, [tf.constant([[2.0, 1.0], [1.0, 3.0]])], "a"


@case("true or false|compare|`>`")
def heaviside():
    @tf.function
    def f(x):
        spikes = tf.where(x > 1.0, 1.0, 0.0)  # HERE
        return tf.reduce_sum(spikes)

    return f, [vector()], "x"


@case("one_hot|indices|argmax")
def vq_vae():
    def f(z, codebook):
        d = tf.reduce_sum((z[:, None] - codebook[None]) ** 2, -1)
        k = tf.argmin(d, 1)  # HERE
        return tf.reduce_sum(tf.matmul(tf.one_hot(k, 2), codebook))

    return f, [tf.constant([[0.1, 0.2]]), tf.constant([[0.0, 0.0], [1.0, 1.0]])], "z"


@case("integers|tf.cast")
def cast_uint8_image():
    def f(img):
        u = tf.image.convert_image_dtype(img, tf.uint8)  # HERE
        return tf.reduce_mean(tf.cast(u, tf.float32))

    return f, [tf.ones([2, 2, 3]) * 0.5], "img"


@case("tf.sign", "zero")
def binarised():
    @tf.function(jit_compile=True)
    def f(x, w):
        b = tf.sign(w)  # HERE
        return tf.reduce_sum(x * b)

    return f, [vector(), vector()], "w"


@case("tf.floor")
def floor_in_scan():
    @tf.function
    def f(x):
        ys = tf.scan(lambda a, b: a + tf.floor(b), x, initializer=0.0)  # HERE
        return ys[-1]

    return f, [vector()], "x"


@case("has a gradient")
def rnn():
    cell = keras.layers.LSTM(2, name="lstm")

    def f(x):
        return tf.reduce_sum(cell(x))

    cell.build((None, 3, 2))
    return f, [tf.ones([1, 3, 2])], cell


@case("int32|int64|integer")
def labels_asked():
    def f(logits, labels):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    return f, [tf.ones([2, 3]), tf.constant([0, 1])], "labels"


@case("sparse|Sparse|no gradient|does not|None")
def labels_of_cross_entropy():
    def f(labels, logits):
        return tf.reduce_sum(
            tf.nn.softmax_cross_entropy_with_logits(tf.stop_gradient(labels), logits)  # HERE
        )

    return f, [tf.constant([1.0, 0.0]), vector(1.0, 2.0)], "labels"


@case("zero")
def batch_norm_mean():
    bn = keras.layers.BatchNormalization()
    bn.build((None, 2))

    def f(x):
        return tf.reduce_sum(bn(x, training=True))

    return f, [tf.constant([[1.0, 2.0], [1.0, 2.0]])], "x"


@case("tf.random.shuffle|shuffle")
def shuffled_batch():
    @tf.function
    def f(x):
        s = tf.random.shuffle(x)  # HERE
        return tf.reduce_sum(s * tf.range(3.0))

    return f, [vector()], "x"


@case("tf.math.top_k|top_k")
def ndcg():
    def f(scores, gains):
        order = tf.argsort(scores, direction="DESCENDING")  # HERE
        return tf.reduce_sum(tf.gather(gains, order) / tf.math.log(tf.range(2.0, 5.0)))

    return f, [vector(), vector()], "scores"


@case("tf.stop_gradient")
def two_stops():
    @tf.function
    def f(x):
        a = tf.stop_gradient(tf.sin(x))  # HERE
        b = tf.stop_gradient(tf.cos(x))
        return tf.reduce_sum(a * b)

    return f, [vector()], "x"


# Right cause and line


@case("written into a variable by assign", "Compute with the tensor itself")
def a_metric_used_as_a_loss():
    metric = keras.metrics.MeanSquaredError()

    def f(x):
        metric.reset_state()
        metric.update_state(0.0 * x, x)  # HERE
        return metric.result()

    return f, [vector()], "x"


@case("tf.unique", "has no gradient")
def the_values_of_unique():
    def f(x):
        return tf.reduce_sum(tf.unique(x)[0])  # HERE

    return f, [vector()], "x"


@case("left the tensors")
def a_model_that_predicts():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])

    def f(x):
        doubled = 2.0 * x
        found = model.predict(doubled[None], verbose=0)  # HERE
        return tf.reduce_sum(found * 3.0)

    return f, [vector()], "x"


@case("left the tensors")
def numbers_drawn_around_it():
    drawing = np.random.default_rng(0)

    def f(x):
        doubled = 2.0 * x
        noise = drawing.normal(doubled)  # HERE
        return tf.reduce_sum(noise * 3.0)

    return f, [vector()], "x"


@case("tiny", "in 24 steps at tf.sigmoid", "in all")
def vanishing_over_many_sigmoids():
    def f(x):
        for _ in range(24):
            x = tf.sigmoid(x)
        return tf.reduce_sum(x)

    return f, [vector()], "x"


@case("the last to use it is tf.nn.bias_add (layer dense; ")
def a_loss_that_ignores_what_is_predicted():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="dense")])
    inputs = tf.ones((2, 3))

    def f():
        model(inputs)  # HERE
        return tf.reduce_mean(tf.ones((2, 2)) ** 2)

    return f, [], model.layers[0].kernel
