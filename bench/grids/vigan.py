"""Readings of VIGAN's CycleGAN on USPS and one MNIST site: one JSON line a run.

    python bench/grids/vigan.py SECONDS PART PARTS [tiny | shapes]  > vigan.jsonl

Kept as it ran for papers/PROTOCOL.md, with JAX 0.11 on an H200: it needs jax and numpy only. Runs
that differ in numbers only are one program. `vigan_data.npz` holds the first 32,000 of MNIST's
training images (mnist) and USPS's training images (usps). Its lines are in `vigan.jsonl.gz` beside
this file; jobs 15, 18 and 20 were not begun when the time was over.
"""
# ruff: noqa: B007, B905, C408, E402, E731, E741, RUF059

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

LIMIT, PART, PARTS = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
TINY = len(sys.argv) > 4
D = np.load("vigan_data.npz")


def edges(im):
    g = im.copy()
    np.maximum(g[:, 1:], im[:, :-1], out=g[:, 1:])
    np.maximum(g[:, :-1], im[:, 1:], out=g[:, :-1])
    t = g.copy()
    np.maximum(g[:, :, 1:], t[:, :, :-1], out=g[:, :, 1:])
    np.maximum(g[:, :, :-1], t[:, :, 1:], out=g[:, :, :-1])
    return g - im


def data(name, n):
    im = D["usps" if name == "usps" else "mnist"]
    e = edges(im)
    o = np.random.default_rng(7).permutation(len(im))
    held, rest = o[:512], o[512:]
    f = lambda a: a.astype(np.float32) / 255
    n = min(n, len(rest) // 2)
    return f(im[rest[:n]]), f(e[rest[n : 2 * n]]), f(im[held]), f(e[held])


# ---- layers: convolutions as products over shifted copies, so that runs are a batch axis
def cols(x, k, s):
    h, w = x.shape[1:3]
    oh, ow = -(-h // s), -(-w // s)
    ph, pw = max((oh - 1) * s + k - h, 0), max((ow - 1) * s + k - w, 0)
    x = jnp.pad(x, ((0, 0), (ph // 2, ph - ph // 2), (pw // 2, pw - pw // 2), (0, 0)))
    # Rows first, then columns: few slices, which compiles in a fraction of the time.
    x = jnp.concatenate([x[:, i : i + (oh - 1) * s + 1 : s] for i in range(k)], -1)
    return jnp.concatenate([x[:, :, j : j + (ow - 1) * s + 1 : s] for j in range(k)], -1)


def conv(p, x, k=3, s=1):
    c = cols(x, k, s) if k > 1 or s > 1 else x
    return c @ p["w"] + p["b"]


def inorm(x):
    m = x.mean((1, 2), keepdims=True)
    v = x.var((1, 2), keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + 1e-5)


def lay(key, fi, fo, init, gain=1.0):  # init: 0 = variance 2/inputs (times gain), 1 = N(0, .02)
    s = jnp.where(init == 0, gain * math.sqrt(2 / fi), 0.02)
    return {"w": s * jax.random.normal(key, (fi, fo)), "b": jnp.zeros(fo)}


class Res:
    def __init__(self, c, b, norm=True):
        self.c, self.b, self.n = c, b, norm

    def init(self, key, i):
        c, b = self.c, self.b
        K = iter(jax.random.split(key, 6 + 2 * b))
        p = {
            "stem": lay(next(K), 49, c, i),
            "d1": lay(next(K), 9 * c, 2 * c, i),
            "d2": lay(next(K), 18 * c, 4 * c, i),
            "u1": lay(next(K), 36 * c, 2 * c, i),
            "u2": lay(next(K), 18 * c, c, i),
            "head": lay(next(K), 49 * c, 1, i),
        }
        for k in range(b):
            p[f"b{k}"] = [lay(next(K), 36 * c, 4 * c, i) for _ in range(2)]
        return p

    def __call__(self, p, x):
        N = inorm if self.n else (lambda v: v)
        h = x[..., None]
        for n, k, s in (("stem", 7, 1), ("d1", 3, 2), ("d2", 3, 2)):
            h = jax.nn.relu(N(conv(p[n], h, k, s)))
        for k in range(self.b):
            r = jax.nn.relu(N(conv(p[f"b{k}"][0], h)))
            h = h + N(conv(p[f"b{k}"][1], r))
        for n in ("u1", "u2"):
            h = jax.nn.relu(N(conv(p[n], jnp.repeat(jnp.repeat(h, 2, 1), 2, 2))))
        return conv(p["head"], h, 7)[:, : x.shape[1], : x.shape[2], 0]


def to_grid(x, p=4):
    n, h, w = x.shape[:3]
    q = x.reshape(n, h // p, p, w // p, p, -1)
    return q.transpose(0, 1, 3, 2, 4, 5).reshape(n, h // p, w // p, -1)


def from_grid(g, p=4):
    n, h, w, d = g.shape
    return g.reshape(n, h, w, p, p).transpose(0, 1, 3, 2, 4).reshape(n, h * p, w * p)


class Grid:
    def __init__(self, out, width=32, blocks=2, norm=False):
        self.o, self.w, self.b, self.n = out, width, blocks, norm

    def init(self, key, i):
        K = jax.random.split(key, 2 * self.b + 2)
        p = {"stem": lay(K[0], 144, self.w, i)}
        for k in range(self.b):
            p[f"b{k}"] = [
                lay(K[2 * k + 1], 9 * self.w, self.w, i),
                lay(K[2 * k + 2], self.w, self.w, i, 0.3),
            ]
        return {**p, "head": lay(K[-1], 9 * self.w, self.o, i, 0.3)}

    def __call__(self, p, x):
        N = inorm if self.n else (lambda v: v)
        h = N(conv(p["stem"], to_grid(x)))
        for k in range(self.b):
            r = jax.nn.relu(N(conv(p[f"b{k}"][0], jax.nn.relu(h))))
            h = h + N(conv(p[f"b{k}"][1], r, 1))
        o = conv(p["head"], jax.nn.relu(h))
        return o[..., 0] if self.o == 1 else from_grid(o)


class Judge:
    def __init__(self, c, layers=3):
        self.c, self.l = c, layers

    def init(self, key, i):
        c = self.c
        K = jax.random.split(key, self.l + 1)
        s = [1] + [c * 2**k for k in range(self.l)] + [1]
        return [lay(k, 16 * a, b, i) for k, a, b in zip(K, s, s[1:])]

    def __call__(self, p, x):
        h = x[..., None]
        for k, l in enumerate(p[:-1]):
            h = conv(l, h, 4, 2)
            h = jax.nn.leaky_relu(h if k == 0 else inorm(h), 0.2)
        return conv(p[-1], h, 4)[..., 0]


GEN = {
    "grid": lambda: Grid(16),
    "gridnorm": lambda: Grid(16, norm=True),
    "conv": lambda: Res(16, 3),
    "convraw": lambda: Res(16, 3, False),
    "conv32": lambda: Res(32, 4),
    "published": lambda: Res(64, 9),
}
JUD = {
    "grid": lambda: Grid(1, 32, 1),
    "patch": lambda: Judge(16),
    "patch2": lambda: Judge(16, 2),
    "patch64": lambda: Judge(64),
}
LOSS = ("printed", "non-saturating", "least-squares")


def out(hp, z):
    return (
        jax.nn.sigmoid(hp["k"] * z) * hp["sc"] + hp["sh"]
    )  # k=1, [0,1]; or tanh = 2σ(2z) − 1 on [−1,1]


def fool(hp, f):
    return hp["loss"] @ jnp.stack(
        [-jax.nn.softplus(f).mean(), jax.nn.softplus(-f).mean(), ((f - 1) ** 2).mean()]
    )


def judged(hp, t, f):
    log = jax.nn.softplus(-t).mean() + jax.nn.softplus(f).mean()
    return hp["loss"] @ jnp.stack([log, log, 0.5 * (((t - 1) ** 2).mean() + (f**2).mean())])


def make(gen, jud, alt):
    G, J = GEN[gen](), JUD[jud]()

    def init(key, hp):
        k = jax.random.split(key, 4)
        i = hp["init"]
        return {"g": (G.init(k[0], i), G.init(k[1], i)), "d": (J.init(k[2], i), J.init(k[3], i))}

    def g_loss(g, d, x, y, hp):
        fy, fx = out(hp, G(g[0], x)), out(hp, G(g[1], y))
        cyc = jnp.abs(out(hp, G(g[1], fy)) - x).mean() + jnp.abs(out(hp, G(g[0], fx)) - y).mean()
        return hp["lam"] * cyc / hp["sc"] * hp["sc"] + fool(hp, J(d[0], fy)) + fool(
            hp, J(d[1], fx)
        ), (fy, fx)

    def d_loss(d, x, y, fx, fy, hp):
        return judged(hp, J(d[0], y), J(d[0], fy)) + judged(hp, J(d[1], x), J(d[1], fx))

    def adam(p, m, gr, t, lr):
        m1 = jax.tree.map(lambda a, b: 0.5 * a + 0.5 * b, m[0], gr)
        m2 = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, m[1], gr)
        c1, c2 = 1 - 0.5**t, 1 - 0.999**t
        return jax.tree.map(
            lambda p, a, b: p - lr * (a / c1) / (jnp.sqrt(b / c2) + 1e-8), p, m1, m2
        ), (m1, m2)

    def step(state, hp, x, y):
        p, mg, md, t = state
        t = t + 1
        x, y = x * hp["sc"] + hp["sh"], y * hp["sc"] + hp["sh"]
        g, d = p["g"], p["d"]
        if alt:
            fy, fx = out(hp, G(g[0], x)), out(hp, G(g[1], y))
            d, md = adam(d, md, jax.grad(d_loss)(d, x, y, fx, fy, hp), t, hp["lr"])
            g, mg = adam(g, mg, jax.grad(g_loss, has_aux=True)(g, d, x, y, hp)[0], t, hp["lr"])
        else:
            gg, (fy, fx) = jax.grad(g_loss, has_aux=True)(g, d, x, y, hp)
            gd = jax.grad(d_loss)(d, x, y, fx, fy, hp)
            g, mg = adam(g, mg, gg, t, hp["lr"])
            d, md = adam(d, md, gd, t, hp["lr"])
        return {"g": g, "d": d}, mg, md, t

    @jax.jit
    def start(key, hps):
        n = len(hps["lr"])
        p = jax.vmap(init)(jax.random.split(key, n), hps)
        z = lambda q: (jax.tree.map(jnp.zeros_like, q),) * 2
        return p, z(p["g"]), z(p["d"]), jnp.zeros(n)

    @partial(jax.jit, donate_argnums=0)
    def epoch(state, hps, X, Y, ix, iy):
        def body(s, b):
            return jax.vmap(step, in_axes=(0, 0, None, None))(s, hps, X[b[0]], Y[b[1]]), None

        return jax.lax.scan(body, state, (ix, iy))[0]

    @jax.jit
    def evaluate(state, hps, hx, hy):
        def one(p, hp):
            sc, sh = hp["sc"], hp["sh"]

            def err(q, a, b):
                o = (out(hp, G(q, a * sc + sh)) - sh) / sc
                return ((o - b) ** 2).mean() * 255**2, o.var(0).mean() * 255**2

            return err(p["g"][0], hx, hy), err(p["g"][1], hy, hx)

        return jax.lax.map(lambda a: one(*a), (state[0], hps))

    return start, epoch, evaluate


def points(lrs, losses, ranges, lams, inits, seeds):
    return [
        dict(lr=a, loss=b, range=c, lam=d, init=e, seed=s)
        for a, b, c, d, e, s in itertools.product(lrs, losses, ranges, lams, inits, range(seeds))
    ]


ALL = points((2e-4, 5e-4, 1e-3), LOSS, ("01", "tanh"), (1.0, 10.0), (0, 1), 1)
FEW = points(
    (2e-4, 5e-4, 1e-3), ("non-saturating", "least-squares"), ("01", "tanh"), (10.0,), (0, 1), 1
)
PUB = points((2e-4,), ("non-saturating", "least-squares"), ("01", "tanh"), (10.0,), (1,), 1)
# data, n, generator, judge, batch, alternating, points
JOBS = [
    ("mnist", 1500, "conv", "patch", 4, True, ALL),
    ("mnist", 1500, "gridnorm", "grid", 4, True, ALL),
    ("mnist", 1500, "grid", "grid", 4, True, ALL),
    ("usps", 1500, "conv", "patch", 4, True, ALL),
    ("usps", 1500, "gridnorm", "grid", 4, True, ALL),
    ("usps", 1500, "grid", "grid", 4, True, ALL),
    ("mnist", 1500, "conv", "patch", 1, True, FEW),
    ("mnist", 1500, "gridnorm", "patch", 4, True, FEW),
    ("mnist", 1500, "published", "patch64", 4, True, PUB),
    ("mnist", 1500, "gridnorm", "patch", 1, True, FEW),
    ("mnist", 1500, "conv", "patch", 16, True, FEW),
    ("mnist", 1500, "convraw", "patch", 4, True, FEW),
    ("mnist", 1500, "conv", "patch", 4, False, FEW),
    ("mnist", 1500, "gridnorm", "grid", 4, False, FEW),
    ("mnist", 1500, "conv", "patch2", 4, True, FEW),
    ("usps", 1500, "conv", "patch", 1, True, FEW),
    ("usps", 1500, "gridnorm", "patch", 1, True, FEW),
    ("mnist", 15000, "conv", "patch", 16, True, FEW),
    ("usps", 1500, "published", "patch64", 4, True, PUB),
    ("usps", 1500, "conv", "patch", 4, False, FEW),
    ("mnist", 1500, "conv32", "patch", 4, True, FEW),
]
SHAPES = TINY and sys.argv[4] == "shapes"
if TINY and not SHAPES:
    JOBS = [(a, 32, c, d, 8, f, g[::37]) for a, b, c, d, e, f, g in JOBS if c != "published"][
        int(sys.argv[4]) : int(sys.argv[4]) + 1
    ]

for number, (name, n, gen, jud, batch, alt, pts) in enumerate(JOBS):
    if number % PARTS != PART:
        continue
    if time.time() - T0 > LIMIT - 25:
        print(json.dumps({"skipped": number}), flush=True)
        continue
    t1 = time.time()
    X, Y, hx, hy = data(name, n)
    if TINY:
        hx, hy = hx[:32], hy[:32]
    blank = [float((hy**2).mean() * 255**2), float((hx**2).mean() * 255**2)]
    hps = {
        "lr": np.array([p["lr"] for p in pts], np.float32),
        "lam": np.array([p["lam"] for p in pts], np.float32),
        "loss": np.array([[p["loss"] == l for l in LOSS] for p in pts], np.float32),
        "init": np.array([p["init"] for p in pts], np.int32),
        "k": np.array([2.0 if p["range"] == "tanh" else 1.0 for p in pts], np.float32),
        "sc": np.array([2.0 if p["range"] == "tanh" else 1.0 for p in pts], np.float32),
        "sh": np.array([-1.0 if p["range"] == "tanh" else 0.0 for p in pts], np.float32),
    }
    hps, X, Y, hx, hy = jax.device_put((hps, X, Y, hx, hy))
    start, epoch, evaluate = make(gen, jud, alt)
    if SHAPES:
        st = jax.eval_shape(start, jax.random.key(0), hps)
        ix = np.zeros((len(X) // batch, batch), np.int32)
        st2 = jax.eval_shape(epoch, st, hps, X, Y, ix, ix)
        assert jax.tree.map(lambda a: (a.shape, a.dtype), st) == jax.tree.map(
            lambda a: (a.shape, a.dtype), st2
        )
        print(
            number,
            name,
            gen,
            jud,
            batch,
            alt,
            len(pts),
            jax.tree.map(lambda a: a.shape, jax.eval_shape(evaluate, st, hps, hx, hy)),
            sum(a.size for a in jax.tree.leaves(st[0])) // len(pts),
            round(time.time() - t1, 1),
            flush=True,
        )
        continue
    state = start(jax.random.key(0), hps)
    rng = np.random.default_rng(1)
    steps = len(X) // batch
    curve = []
    stopped = False
    for ep in range(5):
        ix, iy = (rng.permutation(len(X))[: steps * batch].reshape(steps, batch) for _ in range(2))
        if time.time() - T0 > LIMIT:
            stopped = True
            break
        state = jax.block_until_ready(epoch(state, hps, X, Y, ix, iy))
        curve.append(np.asarray(evaluate(state, hps, hx, hy)))
    for k, p in enumerate(pts):
        c = [[round(float(e[w, 0, k])) for w in (0, 1)] for e in curve]
        v = [round(float(curve[-1][w, 1, k])) for w in (0, 1)] if curve else None
        print(
            json.dumps(
                {
                    "job": number,
                    "data": name,
                    "n": n,
                    "gen": gen,
                    "judge": jud,
                    "batch": batch,
                    "alt": alt,
                    **p,
                    "curve": c,
                    "var": v,
                    "blank": [round(b) for b in blank],
                }
            ),
            flush=True,
        )
    print(
        json.dumps(
            {
                "job": number,
                "seconds": round(time.time() - t1, 1),
                "at": round(time.time() - T0, 1),
                "stopped": stopped,
                "runs": len(pts),
            }
        ),
        flush=True,
    )
