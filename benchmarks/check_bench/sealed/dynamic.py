"""Loops: dynamic programs, iterations, recurrences."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import Mistake, as_if, family, normal, uniform


def _soft_min(values, gamma):
    return -gamma * tf.reduce_logsumexp(-tf.stack(values) / gamma)


def _dtw(cost, smallest, gamma, skip_last=False, no_diagonal=False):
    n, m = cost.shape
    far = tf.constant(1e4, cost.dtype)
    table = {(i, -1): far for i in range(n)} | {(-1, j): far for j in range(m)}
    table[-1, -1] = tf.zeros([], cost.dtype)
    for i in range(n):
        for j in range(m):
            before = [table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]]
            own = 0.0 if skip_last and (i, j) == (n - 1, m - 1) else cost[i, j]
            table[i, j] = own + smallest(before[:2] if no_diagonal and i * j else before, gamma)
    return table[n - 1, m - 1]


@family(
    lambda: (uniform(11, 0.1, 2.0, 3, 4),),
    hard_minimum=Mistake("term", "the backward pass follows the one best path, not the soft one"),
    other_gamma=Mistake("constant", "gamma is 1 in the backward pass, 0.7 in the forward pass"),
    last_cell=Mistake("element", "the last cell gets no gradient"),
    no_diagonal=Mistake("term", "diagonal steps are left out of the backward pass"),
    average=Mistake("factor", "divided by the length n + m, which the function does not do"),
)
def soft_dtw(slip):
    def alignment(cost):
        return _dtw(cost, _soft_min, 0.7)

    def average(cost):
        return alignment(cost) / 7

    def other(cost):
        hard = slip == "hard_minimum"
        return _dtw(
            cost,
            (lambda values, gamma: tf.reduce_min(tf.stack(values))) if hard else _soft_min,
            1.0 if slip == "other_gamma" else 0.7,
            slip == "last_cell",
            slip == "no_diagonal",
        )

    return as_if(alignment, average if slip == "average" else other)


def _log(n, like):
    return tf.math.log(tf.cast(n, like.dtype))


def _plan(cost, iterations, eps):
    f, g = tf.zeros_like(cost[:, 0]), tf.zeros_like(cost[0])
    n, m = cost.shape
    for _ in range(iterations):
        f = -eps * (tf.reduce_logsumexp((g[None] - cost) / eps, 1) + _log(n, cost))
        g = -eps * (tf.reduce_logsumexp((f[:, None] - cost) / eps, 0) + _log(m, cost))
    return tf.exp((f[:, None] + g[None] - cost) / eps)


@family(
    lambda: (uniform(12, 0.0, 1.0, 3, 4),),
    few_iterations=Mistake("iteration", "the backward pass unrolls 2 of the 15 iterations"),
    plan_fixed=Mistake("term", "the plan is taken as a constant: only its product with the cost"),
    cost_fixed=Mistake("term", "only the plan is differentiated, the cost it is weighed by is not"),
    other_eps=Mistake("constant", "the temperature of the backward pass is 0.4, not 0.3"),
    sign=Mistake("sign", "the part through the plan has the wrong sign"),
)
def sinkhorn(slip):
    """Cost of transport after 15 iterations."""

    def transport(cost):
        return tf.reduce_sum(_plan(cost, 15, 0.3) * cost)

    def other(cost):
        iterations = 2 if slip == "few_iterations" else 15
        plan = _plan(cost, iterations, 0.4 if slip == "other_eps" else 0.3)
        fixed = tf.stop_gradient(plan)
        if slip == "plan_fixed":
            plan = fixed
        if slip == "sign":
            plan = 2 * fixed - plan
        return tf.reduce_sum(plan * (tf.stop_gradient(cost) if slip == "cost_fixed" else cost))

    return as_if(transport, other)


def _forward(emission, transition, start=1):
    alphas = [emission[0]]
    for t in range(start, emission.shape[0]):
        scores = alphas[-1][:, None] + transition
        alphas.append(tf.reduce_logsumexp(scores, 0) + emission[t])
    return alphas


def _backward(emission, transition):
    betas = [tf.zeros_like(emission[0])]
    for t in range(emission.shape[0] - 1, 0, -1):
        betas.insert(0, tf.reduce_logsumexp(transition + (emission[t] + betas[0])[None], 1))
    return betas


@family(
    lambda: (normal(13, 5, 3), normal(14, 3, 3)),
    no_last_step=Mistake("element", "the last time step gets no gradient"),
    transposed=Mistake("transposed", "the gradient of the transitions is transposed"),
    one_late=Mistake("shifted", "pairs are counted with the emission of one step too early"),
    unnormalised=Mistake("factor", "the likelihood is not taken off: posteriors do not add to 1"),
    no_future=Mistake("term", "filtered in place of smoothed posteriors: the future is left out"),
)
def hidden_markov(slip):
    """Log likelihood by the forward algorithm; the rule is forward-backward."""

    @pb.custom_gradient
    def likelihood(emission, transition):
        alphas = _forward(emission, transition)
        total = tf.reduce_logsumexp(alphas[-1])

        def likelihood_pullback(dy):
            a, b = tf.stack(alphas), tf.stack(_backward(emission, transition))
            level = tf.zeros_like(total) if slip == "unnormalised" else total
            posterior = tf.exp(a + b - level)
            if slip == "no_future":
                posterior = tf.nn.softmax(a)
            if slip == "no_last_step":
                posterior = posterior * tf.constant([1, 1, 1, 1, 0], a.dtype)[:, None]
            e = emission[:-1] if slip == "one_late" else emission[1:]
            pairs = a[:-1, :, None] + transition + (e + b[1:])[:, None, :] - level
            counts = tf.reduce_sum(tf.exp(pairs), 0)
            counts = tf.transpose(counts) if slip == "transposed" else counts
            return dy * posterior, dy * counts

        return total, likelihood_pullback

    return likelihood


@family(
    lambda: (0.3 * normal(15, 4, 4), normal(16, 4)),
    one_step=Mistake("term", "one step of the iteration is differentiated, no inverse"),
    few_terms=Mistake("iteration", "the inverse is cut after two terms of its series"),
    not_transposed=Mistake("transposed", "solves with I - J in place of its transpose"),
    no_slope=Mistake("missing", "the slope of tanh is left out of the last product"),
    outer_transposed=Mistake("transposed", "the gradient of the matrix is transposed"),
)
def fixed_point(slip):
    """z = tanh(W z + x), differentiated at the solution."""

    def solve(W, x):
        z = tf.zeros_like(x)
        for _ in range(80):
            z = tf.tanh(tf.linalg.matvec(W, z) + x)
        return z

    def adjoint(J, dz):
        system = tf.eye(4, dtype=J.dtype) - J
        if slip == "one_step":
            return dz
        if slip == "few_terms":
            one = tf.linalg.matvec(J, dz, transpose_a=True)
            return dz + one + tf.linalg.matvec(J, one, transpose_a=True)
        return tf.linalg.solve(system, dz[:, None], adjoint=slip != "not_transposed")[:, 0]

    @pb.custom_gradient
    def equilibrium(W, x):
        def equilibrium_pullback(dz):
            # Solved again, so that the rule itself is a function of W and x.
            z = solve(W, x)
            slope = 1 - z**2
            lam = adjoint(slope[:, None] * W, dz)
            lam = lam if slip == "no_slope" else lam * slope
            dW = lam[:, None] * z[None]
            return tf.transpose(dW) if slip == "outer_transposed" else dW, lam

        return solve(W, x), equilibrium_pullback

    return equilibrium


@family(
    lambda: (uniform(17, 0.3, 2.5, 5), uniform(18, 0.1, 0.5, 5)),
    plus=Mistake("sign", "1 + e cos E in the denominator in place of 1 - e cos E"),
    no_sine=Mistake("missing", "sin E is missing in the gradient of the eccentricity"),
    at_mean=Mistake("input", "cos M in place of cos E: the input is taken for the output"),
    eccentric=Mistake(
        "condition",
        "wrong only where e > 0.6",
        at=lambda: (uniform(17, 0.3, 2.5, 5), uniform(18, 0.61, 0.8, 5)),
    ),
    summed=Mistake("axis", "the gradient of e is the mean over all entries"),
)
def kepler(slip):
    """E - e sin E = M, solved by Newton's method."""

    def solve(M, e):
        E = M
        for _ in range(12):
            E = E - (E - e * tf.sin(E) - M) / (1 - e * tf.cos(E))
        return E

    @pb.custom_gradient
    def anomaly(M, e):
        def anomaly_pullback(dE):
            E = solve(M, e)
            cosine = tf.cos(M if slip == "at_mean" else E)
            share = dE / (1 + e * cosine if slip == "plus" else 1 - e * cosine)
            de = share if slip == "no_sine" else share * tf.sin(E)
            de = tf.zeros_like(e) + tf.reduce_mean(de) if slip == "summed" else de
            dM = tf.where(e > 0.6, dE, share) if slip == "eccentric" else share
            return dM, de

        return solve(M, e), anomaly_pullback

    return anomaly


@family(
    lambda: (normal(19, 5, 2, 3), 0.5 * normal(20, 3, 3), 0.6 * normal(21, 3, 3), normal(22, 3)),
    truncated=Mistake("term", "nothing flows back from the third step to the second"),
    own_state=Mistake("shifted", "dU takes the state of the same step in place of the one before"),
    not_transposed=Mistake("transposed", "U is not transposed on the way back"),
    last_bias=Mistake("term", "the bias gets the gradient of the first step alone"),
    no_slope=Mistake("missing", "the slope of tanh is left out of what goes to x"),
)
def recurrent_net(slip):
    """Five steps of a plain recurrent net; all states are returned."""

    def states(x, W, U, b):
        found = [tf.zeros_like(x[0])]
        for t in range(5):
            found.append(tf.tanh(x[t] @ W + found[-1] @ U + b))
        return found

    @pb.custom_gradient
    def unrolled(x, W, U, b):
        def unrolled_pullback(dh):
            h, carry, da = states(x, W, U, b), tf.zeros_like(dh[0]), []
            for t in range(4, -1, -1):
                own = (dh[t] + carry) * (1 - h[t + 1] ** 2)
                cut = slip == "truncated" and t == 2
                carry = (
                    0 * carry if cut else tf.matmul(own, U, transpose_b=slip != "not_transposed")
                )
                da.insert(0, own)
            d, shift = tf.stack(da), 1 if slip == "own_state" else 0
            before = tf.stack(h[shift : 5 + shift])
            at_x = dh if slip == "no_slope" else d
            db = d[0] if slip == "last_bias" else tf.reduce_sum(d, 0)
            return (
                tf.einsum("tbj,ij->tbi", at_x, W),
                tf.einsum("tbi,tbj->ij", x, d),
                tf.einsum("tbi,tbj->ij", before, d),
                tf.reduce_sum(db, 0),
            )

        return tf.stack(states(x, W, U, b)[1:]), unrolled_pullback

    return unrolled


@family(
    lambda: (uniform(23, 0.2, 0.95, 6, 2), normal(24, 6, 2)),
    gate_late=Mistake(
        "shifted", "the carry is multiplied by the gate of its own step, not the next"
    ),
    own_state=Mistake("shifted", "the gate's gradient takes the state after, not before, the step"),
    forwards=Mistake("reversed", "the backward pass runs forwards in time"),
    no_carry=Mistake("term", "nothing is carried back in time"),
    shared=Mistake("stale", "states are kept outside and overwritten by the next call", "stale"),
)
def linear_recurrence(slip):
    """h = a h + x over time."""
    kept = {}

    def scan(a, x):
        found = [x[0]]
        for t in range(1, 6):
            found.append(a[t] * found[-1] + x[t])
        return found

    def carried(a, dh):
        order = range(6) if slip == "forwards" else range(5, -1, -1)
        carry, total = tf.zeros_like(dh[0]), {}
        for t in order:
            gate = a[t] if slip in {"gate_late", "forwards"} else a[min(t + 1, 5)]
            carry = dh[t] + (0.0 if slip == "no_carry" else gate * carry)
            total[t] = carry
        return tf.stack([total[t] for t in range(6)])

    @pb.custom_gradient
    def recurrence(a, x):
        kept["h"] = scan(a, x)

        def recurrence_pullback(dh):
            h = kept["h"] if slip == "shared" else scan(a, x)
            dx = carried(a, dh)
            before = h if slip == "own_state" else [tf.zeros_like(x[0]), *h[:-1]]
            first = tf.constant([0, 1, 1, 1, 1, 1], a.dtype)[:, None]
            return dx * tf.stack(before) * first, dx

        return tf.stack(kept["h"]), recurrence_pullback

    return recurrence


def _slope(state, p):
    prey, hunter = state[..., 0], state[..., 1]
    grow = p[0] * prey - p[1] * prey * hunter
    return tf.stack([grow, p[2] * prey * hunter - p[3] * hunter], -1)


def _runge_kutta(state, p, h, *, last=None):
    end = p if last is None else last
    k1 = _slope(state, p)
    k2 = _slope(state + h / 2 * k1, p)
    k3 = _slope(state + h / 2 * k2, p)
    k4 = _slope(state + h * k3, end)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@family(
    lambda: (uniform(25, 0.5, 2.0, 3, 2), tf.constant([1.1, 0.4, 0.3, 0.8])),
    euler=Mistake("approximation", "the backward pass differentiates an Euler step"),
    no_last_stage=Mistake("term", "the last stage gives no gradient to the parameters"),
    step_twice=Mistake("factor", "the step is taken twice as long in the backward pass"),
    one_parameter=Mistake("element", "the last parameter gets no gradient"),
    half=Mistake("dtype", "the backward pass computes in float16"),
)
def predator_prey(slip):
    """One Runge-Kutta step of Lotka-Volterra."""

    def step(state, p):
        return _runge_kutta(state, p, 0.1)

    def other(state, p):
        if slip == "euler":
            return state + 0.1 * _slope(state, p)
        if slip == "half":
            out = _runge_kutta(tf.cast(state, tf.float16), tf.cast(p, tf.float16), 0.1)
            return tf.cast(out, state.dtype)
        if slip == "one_parameter":
            p = tf.concat([p[:3], tf.stop_gradient(p[3:])], 0)
        last = tf.stop_gradient(p) if slip == "no_last_stage" else None
        return _runge_kutta(state, p, 0.2 if slip == "step_twice" else 0.1, last=last)

    return as_if(step, other)
