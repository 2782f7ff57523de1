"""Is a hand-written gradient right? A verdict, and what is wrong."""

import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

x = tf.constant([0.5, -1.5, 2.0])
large = tf.constant([0.1, 33.3, 77.7])


@pb.custom_gradient
def energy(x):
    return tf.reduce_sum(1e3 * x**2), lambda dy: dy * 2e3 * x


@pb.custom_gradient
def forgetful(x):
    return tf.reduce_sum(1e3 * x**2), lambda dy: 2e3 * x


@pb.custom_gradient
def sign_lost(x):
    return tf.reduce_sum(tf.cos(x)), lambda dy: dy * tf.sin(x)


def stock_verdict(fn, x, why=False):
    [given], [measured] = tf.test.compute_gradient(fn, [x])
    error = (abs(given - measured) / abs(measured)).max()
    verdict = "right" if error < 0.01 else "wrong"
    return f"error {error:.2g}" if why else verdict


def our_verdict(fn, x, why=False):
    report = pb.check(fn, x)
    verdict = "right" if report.ok else "wrong"
    return report.findings[0].kind if why else verdict


story = Story(
    "Is my gradient right, and if not, what is wrong with it?",
    stock=stock_verdict,
    ours=our_verdict,
    lines=[
        Line("a right rule", lambda judge: judge(energy, x), "right"),
        Line("at large numbers", lambda judge: judge(energy, large), "right"),
        Line("upstream forgotten", lambda judge: judge(forgetful, x), "wrong"),
        Line("sign lost", lambda judge: judge(sign_lost, x), "wrong"),
        Line("what is wrong?", lambda judge: judge(sign_lost, x, why=True), "sign"),
    ],
    moral="A checker that never varies the upstream cannot see that a rule forgets it.",
)

if __name__ == "__main__":
    story.show()
