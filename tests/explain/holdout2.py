from __future__ import annotations
import keras, numpy as np, tensorflow as tf, pullback as pb
from tests.explain.why_cases import Case, vector

CASES = {}


def case(*words):
    def add(make):
        CASES[make.__name__] = Case(make, words)
        return make

    return add


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
    over = (
        pb.override({keras.activations.tanh: lambda dy: tf.zeros_like(dy)})(model)
        if False
        else pb.override({"Tanh": lambda dy: tf.zeros_like(dy)})(lambda x: tf.reduce_sum(model(x)))
    )
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


@case("not taken")
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
        lu, p = tf.linalg.lu(a)  # HERE
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
            tf.nn.softmax_cross_entropy_with_logits(tf.stop_gradient(labels), logits)
        )  # HERE

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
