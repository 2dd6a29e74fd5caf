"""Readings of growPU, nnPU and uPU on 4 against 9 and 8 against 2: one JSON line a run.

    python bench/grids/growpu.py SECONDS [tiny]  > growpu.jsonl

Kept as it ran for papers/PROTOCOL.md, with JAX 0.11 on an H200: it needs jax and numpy only. All
runs of a pair are one program. `pu_data.npz` holds the first 5,500 images of each digit among
MNIST's training images (d4, d9, d8, d2). Its lines are in `growpu.jsonl.gz` beside this file; the
time was over before nnPU and uPU on 8 against 2 had more than 1,500 steps, and before the linear
classifiers.
"""
# ruff: noqa: B905, C408, E402, E731, E741

import itertools
import json
import math
import sys
import time

T0 = time.time()
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

LIMIT, TINY = float(sys.argv[1]), len(sys.argv) > 2
D = np.load("pu_data.npz")
B, H = (100, 20) if TINY else (500, 300)
PRIOR, ALPHA, GAMMA, PI_PRE, PI_GROW = 0.5, 0.05, 0.5, 0.05, 0.45
OPT = ("sgd", "momentum", "adam")


def pair(a, b, seed):
    n = 300 if TINY else 5000
    rng = np.random.default_rng([seed, a, b])
    xs = [D[f"d{c}"][rng.permutation(len(D[f"d{c}"]))[:n]].reshape(n, 784) for c in (a, b)]
    o = rng.permutation(2 * n)
    x = np.concatenate(xs)[o].astype(np.float32) / 127.5 - 1
    return x, o < n


def rate(opt, k):
    return 1e-4 * 10 ** (k / 2) / {"sgd": 1, "momentum": 10, "adam": 30}[opt]


def act(h, relu):
    return jnp.where(relu[:, None, None], jax.nn.relu(h), jnp.tanh(h))


def loss(z, y, log):
    return jnp.where(log[:, None], jax.nn.softplus(-y * z), jax.nn.sigmoid(-y * z))


def start(key, hp, linear):
    r = len(hp["lr"])
    k = jax.random.split(key, 2)

    def draw(key, shape, fan):
        u = jax.random.uniform(key, shape, minval=-1, maxval=1) / math.sqrt(fan)
        g = jax.random.normal(key, shape) * math.sqrt(2 / fan)
        return jnp.where(hp["init"].reshape(-1, *[1] * (len(shape) - 1)) == 0, u, g)

    if linear:
        p = {"w": draw(k[0], (r, 784), 784), "b": jnp.zeros(r)}
    else:
        p = {
            "w": draw(k[0], (r, 784, H), 784),
            "c": jnp.zeros((r, H)),
            "v": draw(k[1], (r, H), H),
            "b": jnp.zeros(r),
        }
    z = jax.tree.map(jnp.zeros_like, p)
    i = jnp.zeros(r, jnp.int32)
    return dict(
        p=p,
        m=z,
        v=z,
        t=jnp.zeros(r),
        stage=i,
        count=i,
        lens=jnp.zeros((r, 3), jnp.int32),
        lim=jnp.zeros((r, 2), bool),
    )


def pre(p, x, linear):  # what both passes share: runs × rows (× units)
    if linear:
        return jnp.einsum("bd,rd->rb", x, p["w"])
    return jnp.einsum("bd,rdh->rbh", x, p["w"]) + p["c"][:, None]


def head(p, h, hp, mask, linear):
    if linear:
        return h + p["b"][:, None]
    return jnp.einsum("rbh,rh->rb", act(h, hp["relu"]) * mask, p["v"]) + p["b"][:, None]


def update(s, g, hp, live):
    adam = hp["opt"] == 2
    t = s["t"] + 1
    sh = lambda a, l: a.reshape(-1, *[1] * (l.ndim - 1))
    beta, a = jnp.where(hp["opt"] == 0, 0.0, 0.9), jnp.where(adam, 0.1, 1.0)

    def one(p, m, v, g):
        m2 = sh(beta, p) * m + sh(a, p) * g
        v2 = 0.999 * v + 0.001 * g * g
        st = jnp.where(
            sh(adam, p), (m2 / sh(1 - 0.9**t, p)) / (jnp.sqrt(v2 / sh(1 - 0.999**t, p)) + 1e-8), m2
        )
        ok = sh(live, p)
        return (
            jnp.where(ok, p - sh(hp["lr"], p) * st, p),
            jnp.where(ok, m2, m),
            jnp.where(ok, v2, v),
        )

    tri = jax.tree.map(one, s["p"], s["m"], s["v"], g)
    pick = lambda k: jax.tree.map(lambda q: q[k], tri, is_leaf=lambda q: isinstance(q, tuple))
    return {**s, "p": pick(0), "m": pick(1), "v": pick(2), "t": t}


def masks(key, linear):
    if linear:
        return 1.0, 1.0
    f = lambda k: jax.random.bernoulli(k, 0.8, (B, H)) / 0.8
    return f(jax.random.fold_in(key, 0)), f(jax.random.fold_in(key, 1))


def grow_step(s, hp, x, mean, key, linear, limits):
    p, st = s["p"], s["stage"]
    mx, mm = masks(key, linear)
    hm = lambda q: pre(q, mean[None], linear)
    pos = head(p, pre(p, x, linear), hp, 1.0, linear) > 0
    mpos = head(p, hm(p), hp, 1.0, linear)[:, 0] > 0
    share, begun = pos.mean(1), s["count"] > 0
    reached = begun[:, None] & jnp.stack([mpos & (share <= PI_PRE), share >= PI_GROW], 1)
    limit = s["count"][:, None] >= jnp.array(limits[:2])
    leave = jnp.concatenate(
        [reached | limit, (s["count"] >= limits[2])[:, None], jnp.zeros((len(st), 1), bool)], 1
    )
    leave = jnp.take_along_axis(leave, st[:, None], 1)[:, 0]
    new = st + leave
    lim = s["lim"] | ((jnp.arange(2) == st[:, None]) & limit & ~reached)
    s = {
        **s,
        "stage": new,
        "count": jnp.where(leave, 0, s["count"]) + 1,
        "lens": s["lens"] + (jnp.arange(3) == new[:, None]),
        "lim": lim,
    }
    n = pos.sum(1)
    neg = B - n
    tune = new == 2
    w_n = (n + 1) / jnp.maximum(neg, 1)
    sh = n / B
    w_p = jnp.where(tune & (sh >= PRIOR + ALPHA), GAMMA, 1.0)
    w_n = jnp.where(tune & (sh <= PRIOR - ALPHA), GAMMA * w_n, w_n)
    is_pre = new == 0
    each = PRIOR / (n + 1)
    rows_w = jnp.where(
        is_pre[:, None], 0.5 / B, each[:, None] * jnp.where(pos, w_p[:, None], w_n[:, None])
    )
    mean_w = jnp.where(is_pre, 0.5, each * w_p)
    y = jnp.where(pos & ~is_pre[:, None], 1.0, -1.0)

    def risk(q):
        z = head(q, pre(q, x, linear), hp, mx, linear)
        if linear:
            lm = loss(head(q, hm(q), hp, 1.0, linear), 1.0, hp["log"])[:, 0]
        else:
            many = (hp["each"] & is_pre)[:, None, None]
            zm = head(q, hm(q), hp, jnp.where(many, mm, mm[:1]), linear)
            lm = loss(zm, 1.0, hp["log"]).mean(1)
        return (mean_w * lm + (rows_w * loss(z, y, hp["log"])).sum(1)).sum()

    return update(s, jax.grad(risk)(p), hp, new < 3)


def pu_step(s, hp, x, mean, key, linear, limits):
    mx, mm = masks(key, linear)
    m1 = 1.0 if linear else mm[:1]

    def risk(q):
        z, zm = (
            head(q, pre(q, x, linear), hp, mx, linear),
            head(q, pre(q, mean[None], linear), hp, m1, linear),
        )
        sg = jax.nn.sigmoid
        a = PRIOR * sg(-zm).mean(1)
        b = sg(z).mean(1) - PRIOR * sg(zm).mean(1)
        return jnp.where(hp["nn"] & (b < 0), -b, a + b).sum()

    s = update(s, jax.grad(risk)(s["p"]), hp, s["stage"] < 3)
    return {**s, "count": s["count"] + 1}


def make(step, linear, limits):
    begin = jax.jit(partial(start, linear=linear))

    @partial(jax.jit, donate_argnums=0)
    def block(s, hp, x, mean, order, key):
        def body(s, a):
            i, rows = a
            return step(s, hp, x[rows], mean, jax.random.fold_in(key, i), linear, limits), None

        return jax.lax.scan(body, s, (jnp.arange(len(order)), order))[0]

    @jax.jit
    def look(s, hp, x, truth):
        z = jax.lax.map(
            lambda c: head(s["p"], pre(s["p"], c, linear), hp, 1.0, linear),
            x.reshape(-1, B * 2 if not TINY else B, 784),
        )
        pos = jnp.moveaxis(z, 1, 0).reshape(len(hp["lr"]), -1) > 0
        return (
            pos.mean(1),
            (pos == truth).mean(1),
            (pos & truth).sum(1) / jnp.maximum(pos.sum(1), 1),
        )

    return begin, block, look


def run(kind, digits, grid, linear, total, limits, every=500):
    t1 = time.time()
    x, truth = pair(*digits, seed=0)
    hp = {
        "lr": np.array([g["lr"] for g in grid], np.float32),
        "opt": np.array([OPT.index(g["opt"]) for g in grid]),
        "init": np.array([g["init"] for g in grid]),
        "relu": np.array([g["act"] == "relu" for g in grid]),
        "log": np.array([g.get("loss") == "logistic" for g in grid]),
        "each": np.array([g.get("each", 0) == 1 for g in grid]),
        "nn": np.array([g.get("nn", 0) == 1 for g in grid]),
    }
    mean = x[truth].mean(0, dtype=np.float64).astype(np.float32)
    hp, X, tr, mean = jax.device_put((hp, x, truth, mean))
    begin, block, look = make(grow_step if kind == "grow" else pu_step, linear, limits)
    s = begin(jax.random.key(1), hp)
    rng = np.random.default_rng(2)
    shares, accs, precs, stages, at = [], [], [], [], []
    if TINY:
        every = 50
    done, per = 0, len(x) // B
    stopped = False
    while done < total:
        if time.time() - T0 > LIMIT:
            stopped = True
            break
        order = np.concatenate(
            [rng.permutation(len(x))[: per * B].reshape(per, B) for _ in range(every // per + 1)]
        )[:every]
        s = block(s, hp, X, mean, order, jax.random.fold_in(jax.random.key(3), done))
        done += every
        sh, ac, pr = (np.asarray(a) for a in look(s, hp, X, tr))
        shares.append(sh)
        accs.append(ac)
        precs.append(pr)
        stages.append(np.asarray(s["stage"]))
        at.append(done)
        if kind == "grow" and (stages[-1] == 3).all():
            break
    lens, lim = np.asarray(s["lens"]), np.asarray(s["lim"])
    r3 = lambda v: [round(float(q), 3) for q in v]
    for k, g in enumerate(grid):
        line = {"kind": kind, "digits": digits, "linear": linear, **g}
        sc, ac = [a[k] for a in shares], [a[k] for a in accs]
        if kind == "grow":
            # points of the curve at the last look of each stage
            last = [
                max([j for j, t in enumerate(stages) if t[k] == q], default=None) for q in (0, 1)
            ]
            line |= {
                "lens": lens[k].tolist(),
                "lim": lim[k].tolist(),
                "stage": int(stages[-1][k]),
                "end": r3([sc[-1], ac[-1]]),
                "most": round(float(max(ac)), 3),
            }
            for q, j in zip(("pre", "grown"), last):
                if j is not None:
                    line[q] = r3([sc[j], ac[j], precs[j][k]])
        else:
            half = len(sc) // 2
            line |= {
                "share": r3([sc[0], sc[half], sc[-1]]),
                "off": round(float(np.mean(np.abs(np.array(sc[half:]) - 0.5))), 4),
                "acc": r3([ac[half], ac[-1], max(ac)]),
            }
        print(json.dumps(line), flush=True)
    print(
        json.dumps(
            {
                "done": kind,
                "digits": digits,
                "linear": linear,
                "runs": len(grid),
                "steps": done,
                "seconds": round(time.time() - t1, 1),
                "at": round(time.time() - T0, 1),
                "stopped": stopped,
            }
        ),
        flush=True,
    )


P = itertools.product
ks = range(8)
GROW = [
    dict(act=a, opt=o, loss=l, init=i, each=e, lr=rate(o, k))
    for a, o, l, i, e, k in P(("relu", "tanh"), OPT, ("logistic", "sigmoid"), (0, 1), (0, 1), ks)
]
PU = [
    dict(act=a, opt=o, init=i, nn=n, lr=rate(o, k))
    for a, o, i, n, k in P(("relu", "tanh"), OPT, (0, 1), (1, 0), ks)
]
GLIN = [
    dict(act="none", opt=o, loss=l, init=i, lr=rate(o, k))
    for o, l, i, k in P(OPT, ("logistic", "sigmoid"), (0, 1), ks)
]
PLIN = [
    dict(act="none", opt=o, init=i, nn=n, lr=rate(o, k))
    for o, i, n, k in P(OPT, (0, 1), (1, 0), ks)
]
sizes = dict(lim=(5000, 3000, 4000), tot=12002, pu=10000, linlim=(10000, 3000, 5000), lintot=18002)
if TINY:
    GROW, PU, GLIN, PLIN = GROW[::37], PU[::37], GLIN[::17], PLIN[::17]
    sizes = dict(lim=(60, 60, 60), tot=182, pu=100, linlim=(60, 60, 60), lintot=182)
for digits in ((4, 9), (8, 2)):
    run("grow", digits, GROW, False, sizes["tot"], sizes["lim"])
    run("pu", digits, PU, False, sizes["pu"], (0, 0, 0))
for digits in ((4, 9), (8, 2)):
    run("grow", digits, GLIN, True, sizes["lintot"], sizes["linlim"])
    run("pu", digits, PLIN, True, sizes["pu"], (0, 0, 0))
