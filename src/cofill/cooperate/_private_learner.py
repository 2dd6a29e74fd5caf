"""Ridge regression on shares: what the two computing sites run, and the dealer on masks.

All of it is one computation (`cofill.shares.Computer`). Moments of features and targets are
products of shares. To solve with a shared matrix A it is turned by a random rotation Q that only
the dealer knows, and Q A Qᵀ is opened to the two computing sites: a uniformly rotated matrix tells
its eigenvalues and nothing else. Weights and predictions stay shares. What leaves are, per target
column, sums of squared errors in cross-validation, for the target's owner.

**Fractional bits.** Inputs have 30, moments 36, rotations 24, turned moments with targets 34,
eigenvectors 31, weights 16. Features of all views together have variance 1 and those of products
less, so that moments stay below 2, and weights below 2^10 for the least penalty: no product of the
computation reaches 2^62.

**Error.** A rotation that is off by Δ changes the penalty λ to λ (I + O(Δ)) and nothing else, so
that its 24 bits do no harm. A truncation is right on average and off by less than a unit, and
moments pass two: of p columns they are off by a matrix whose norm is below 2 p 2^-36 and about
2 √p 2^-36. Weights are off by that over the penalty, relatively, and the least penalty is
0.03 / people, shared between the views. With 500 columns, 1,000 people and 3 views this bounds the
largest part of the difference to plain arithmetic by 1.5e-3 standard deviations in a cell, and
makes it about 7e-5; penalties that are chosen are larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cofill.codec import storable
from cofill.cooperate._private_plan import MANY_VIEWS, Block, Plan
from cofill.shares import Computer, Masked, Rounds, Words

INPUT_BITS, GRAM_BITS, ROTATION_BITS, VECTOR_BITS, WEIGHT_BITS = 30, 36, 24, 31, 16
CROSS_BITS = 34
SCALE_BITS = 24
SHRUNK_BITS = CROSS_BITS + WEIGHT_BITS - 32
PREDICTED_BITS = INPUT_BITS + WEIGHT_BITS
ERROR_BITS = 24
SCORE_BITS, SPREAD_BITS = 2 * ERROR_BITS, 2 * INPUT_BITS

LEARN_ROUNDS, ASK_ROUNDS = 16, 12
"""How many times the computing sites open something to each other."""

Inputs = Mapping[str, Words]


@storable
@dataclass(frozen=True, eq=False)
class Learned:
    """Masked moments, which asking needs: over everybody, and without each fold in turn.

    Covariances by part (``"0"`` is everybody, ``"1"`` all but the first fold), and moments with a
    view's targets by part and view. A person who was learned from is told by moments that they are
    not in: what a site makes of predictions for its own people must hold for the cells it lacks.
    """

    covariance: Mapping[str, Masked]
    cross: Mapping[str, Masked]


@dataclass(frozen=True, eq=False)
class Task:
    """A regression to solve: moments, and for each output its target column and penalty."""

    covariance: Masked
    cross: Masked
    columns: np.ndarray
    penalties: np.ndarray


def variants(plan: Plan) -> tuple[bool, ...]:
    """Return whether products of two views are left out, and taken in, where there are any.

    Each is a regression for every view and fold: of many views, products are always taken in.
    """
    if not any(len(block) == 2 for block in plan.blocks):
        return (False,)
    return (True,) if len(plan.views) > MANY_VIEWS else (False, True)


# --- learning -------------------------------------------------------------------------------------


def learn(
    computer: Computer, plan: Plan, inputs: Inputs, least: int
) -> Rounds[tuple[Learned, dict[str, Words]]]:
    """Learn moments, and return them with shares of each penalty's errors.

    Of a target view, ``view/0`` and ``view/1`` (of `variants`) are sums of squared errors,
    penalties × columns, of people whom the model had not seen; ``view/spread`` is
    the sum of squares of the same people's targets. Who is judged, only the dealer knows.
    """
    folds = range(plan.folds)
    features = yield from _features(computer, plan, inputs, [f"{f}" for f in folds])
    targets = [
        [_rows_of(computer, plan, k, f"target/{f}", inputs) for k in range(len(plan.views))]
        for f in folds
    ]
    sums = [_sums(computer, plan, f"{f}", features[f], targets[f]) for f in folds]
    parts = {str(part): plan.learning_folds(part) for part in range(plan.folds + 1)}
    moments = yield from _moments(computer, plan, sums, parts)
    tasks, judged = {}, {}
    for t, name in enumerate(plan.views):
        for variant, pairs in enumerate(variants(plan)):
            blocks = plan.usable(t, plan.others(t), pairs=pairs, least=least)
            if len(blocks) < 2:
                continue
            informing = plan.informing(t, blocks)
            at = plan.columns_of(blocks)[informing]
            for f in folds:
                task, part = f"{name}/{variant}/{f}", f"{f + 1}"
                tasks[task] = Task(
                    moments[f"{part}/covariance"][np.ix_(at, at)],
                    moments[f"{part}/with/{name}"][at],
                    np.tile(np.arange(plan.targets[t]), len(plan.penalties)),
                    np.repeat(plan.penalties, plan.targets[t]) * plan.moment_scale(parts[part]),
                )
                rows = slice(plan.judged_rows(f))
                judged[task] = (
                    _beside(features[f], blocks, informing)[rows],
                    targets[f][t][rows],
                )
    weights = yield from _solve(computer, plan, tasks)
    errors = {}
    for task, (rows, truth) in judged.items():
        predicted = computer.product(f"{task}/judged", rows, weights[task])
        wide = computer.share(truth)[:, tasks[task].columns]
        errors[f"{task}/error"] = computer.multiple(2**WEIGHT_BITS, wide) - predicted
    short = yield from computer.truncate(errors, PREDICTED_BITS - ERROR_BITS)
    masked = yield from computer.mask(short)
    scores: dict[str, Words] = {}
    for task, (_, truth) in judged.items():
        name, variant, fold = task.rsplit("/", 2)
        label, weight = f"{name}/{variant}", f"{name}/{fold}"
        score = computer.weighted_squares(f"{task}/score", weight, masked[f"{task}/error"])
        scores[label] = scores.get(label, 0) + score
        if variant == "0":
            spread = computer.weighted_squares(f"{task}/spread", weight, truth)
            scores[f"{name}/spread"] = scores.get(f"{name}/spread", 0) + spread
    covariances = {part: moments[f"{part}/covariance"] for part in parts}
    cross = {f"{part}/{n}": moments[f"{part}/with/{n}"] for part in parts for n in plan.views}
    return Learned(covariances, cross), scores


def _features(
    computer: Computer, plan: Plan, inputs: Inputs, parts: list[str]
) -> Rounds[list[dict[Block, Masked]]]:
    """Return every block's rows, in each part of the people; products take two rounds."""
    features: list[dict[Block, Masked]] = []
    products = {}
    for part in parts:
        rows: dict[Block, Masked] = {
            (k,): _rows_of(computer, plan, k, f"feature/{part}", inputs)
            for k in range(len(plan.views))
        }
        people = len(rows[0,].public)
        rows[()] = computer.constant(
            np.full((people, 1), 1 / np.sqrt(len(plan.views) * plan.slots)), INPUT_BITS
        )
        factors = [
            _rows_of(computer, plan, k, f"factor/{part}", inputs) for k in range(len(plan.views))
        ]
        for block in plan.blocks:
            if len(block) == 2:
                left, right = (factors[k] for k in block)
                wide = left.public.shape[1], right.public.shape[1]
                first = np.repeat(np.arange(wide[0]), wide[1])
                second = np.tile(np.arange(wide[1]), wide[0])
                label = f"joint/{part}/{block}"
                products[label] = computer.times(label, left[:, first], right[:, second])
        features.append(rows)
    short = yield from computer.truncate(products, INPUT_BITS)
    masked = yield from computer.mask(short)
    for part, rows in zip(parts, features, strict=True):
        rows |= {b: masked[f"joint/{part}/{b}"] for b in plan.blocks if len(b) == 2}
    return features


def _beside(
    features: Mapping[Block, Masked], blocks: tuple[Block, ...], informing: np.ndarray
) -> Masked:
    """Return those columns of blocks, side by side, that may inform a target."""
    whole = Masked.beside([features[block] for block in blocks])
    return whole if informing.all() else whole[:, informing]


def _rows_of(computer: Computer, plan: Plan, view: int, label: str, inputs: Inputs) -> Masked:
    """Return a view's rows: those of its sites, each zero where it has no row, added up."""
    first, *others = (
        computer.input(party, label, inputs[f"{party}/{label}"]) for party in plan.parties[view]
    )
    return sum(others, first)


def _sums(
    computer: Computer,
    plan: Plan,
    part: str,
    features: Mapping[Block, Masked],
    targets: list[Masked],
) -> dict[tuple[Block, Block | str], Words]:
    """Return shares of the sums of products of blocks with blocks, and of blocks with targets.

    They run over those people of a part whom the plan learns from, which only the dealer knows.
    """
    weights = f"learned/{part}"
    rows = {b: computer.weigh(f"{part}/{b}", weights, features[b]) for b in plan.blocks}
    wanted = [computer.weigh(f"{part}/target/{t}", weights, y) for t, y in enumerate(targets)]
    sums: dict[tuple[Block, Block | str], Words] = {}
    for a, first in enumerate(plan.blocks):
        for second in plan.blocks[a:]:
            label = f"sum/{part}/{first}/{second}"
            sums[first, second] = computer.weighted_product(label, rows[first], rows[second])
        for t, name in enumerate(plan.views):
            if t not in first:
                label = f"sum/{part}/{first}/with/{name}"
                sums[first, name] = computer.weighted_product(label, rows[first], wanted[t])
    return sums


def _moments(
    computer: Computer,
    plan: Plan,
    sums: list[dict[tuple[Block, Block | str], Words]],
    parts: Mapping[str, list[int]],
) -> Rounds[dict[str, Masked]]:
    """Return masked covariances and cross moments in parts of the people.

    A sum over n people, of whom m have both blocks, is divided by m; inputs were divided by √n.
    Where m is the same for all, this is left to the penalties (`Plan.moment_scale`).
    """
    position = {name: t for t, name in enumerate(plan.views)}
    short = yield from computer.truncate(
        {
            f"{part}/{first}/{second}": sum(
                (sums[f][first, second] for f in folds[1:]), sums[folds[0]][first, second]
            )
            for part, folds in parts.items()
            for first, second in sums[0]
        },
        2 * INPUT_BITS - GRAM_BITS,
    )
    scaled = {}
    for part, folds in parts.items():
        if plan.moment_scale(folds) < 1:
            continue
        for first, second in sums[0]:
            members = (*first, position[second]) if isinstance(second, str) else (*first, *second)
            people = plan.learned_from(members, folds)
            # Two blocks that fewer than two people have together are taken as unrelated.
            factor = round(2**SCALE_BITS * plan.slots / people) if people > 1 else 0
            label = f"{part}/{first}/{second}"
            scaled[label] = computer.multiple(factor, short[label])
    even = yield from computer.truncate(
        {f"{label}/even": share for label, share in scaled.items()}, SCALE_BITS
    )
    even |= {f"{label}/even": share for label, share in short.items() if label not in scaled}
    # Pieces are masked, not the whole: below the diagonal it is the same once more.
    pieces = yield from computer.mask(even)
    whole = {}
    for part in parts:

        def piece(first: Block, second: Block, part: str = part) -> Masked:
            if plan.blocks.index(first) > plan.blocks.index(second):
                return pieces[f"{part}/{second}/{first}/even"].T
            return pieces[f"{part}/{first}/{second}/even"]

        rows = [Masked.beside([piece(a, b) for b in plan.blocks]) for a in plan.blocks]
        whole[f"{part}/covariance"] = Masked.below(rows)
        for t, name in enumerate(plan.views):
            columns = []
            for block in plan.blocks:
                nothing = computer.zeros((plan.width(block), plan.targets[t]))
                known = pieces.get(f"{part}/{block}/{name}/even")
                columns.append(Masked(nothing, nothing) if known is None else known)
            whole[f"{part}/with/{name}"] = Masked.below(columns)
    return whole


def _solve(computer: Computer, plan: Plan, tasks: Mapping[str, Task]) -> Rounds[dict[str, Masked]]:
    """Return masked weights of every task, features × outputs."""
    turns = {
        t: computer.rotation(t, task.covariance.public.shape[0], ROTATION_BITS)
        for t, task in tasks.items()
    }
    left = {
        f"{t}/turned": computer.product(f"{t}/turned", turns[t], task.covariance)
        for t, task in tasks.items()
    }
    right = {
        f"{t}/cross": computer.product(f"{t}/turned cross", turns[t], task.cross)
        for t, task in tasks.items()
    }
    # Of moments with targets two bits more go: inverse matrices times them must stay below 2^62.
    fewer = dict.fromkeys(right, GRAM_BITS + ROTATION_BITS - CROSS_BITS)
    bits = {**dict.fromkeys(left, ROTATION_BITS), **fewer}
    short = yield from computer.truncate({**left, **right}, bits)
    turned = yield from computer.mask({label: short[label] for label in left})
    opened = yield from computer.open(
        {
            t: computer.symmetric_product(
                f"{t}/spectrum", turned[f"{t}/turned"], turns[t].T, ROTATION_BITS
            )
            for t in tasks
        }
    )
    spectra = yield from computer.spectra(opened, GRAM_BITS + ROTATION_BITS)
    shrunk, bases = {}, {}
    for t, task in tasks.items():
        values, vectors = spectra[t]
        cross = short[f"{t}/cross"]
        bases[t] = computer.encode(vectors, VECTOR_BITS)
        outputs = computer.zeros((len(values), len(task.columns)))
        for penalty in np.unique(task.penalties):
            at = np.flatnonzero(task.penalties == penalty)
            inverse = (vectors / (values + penalty / len(plan.views))).T
            rows = computer.encode(inverse, WEIGHT_BITS)
            outputs[:, at] = computer.scaled(rows, cross[:, task.columns[at]])
        shrunk[f"{t}/shrunk"] = outputs
    shrunk = yield from computer.truncate(shrunk, CROSS_BITS + WEIGHT_BITS - SHRUNK_BITS)
    back = {f"{t}/back": computer.scaled(bases[t], shrunk[f"{t}/shrunk"]) for t in tasks}
    back = yield from computer.truncate(back, VECTOR_BITS)
    masked = yield from computer.mask(back)
    weights = {
        f"{t}/weights": computer.product(f"{t}/weights", turns[t].T, masked[f"{t}/back"])
        for t in tasks
    }
    weights = yield from computer.truncate(weights, ROTATION_BITS + SHRUNK_BITS - WEIGHT_BITS)
    masked = yield from computer.mask(weights)
    return {t: masked[f"{t}/weights"] for t in tasks}


# --- asking ---------------------------------------------------------------------------------------


def ask(
    computer: Computer,
    plan: Plan,
    inputs: Inputs,
    learned: Learned,
    known: Plan,
    choices: Mapping[str, np.ndarray],
    least: int,
) -> Rounds[dict[str, Words]]:
    """Return shares of the targets of those whom each view asks about, by slot; zero elsewhere.

    ``known`` is the plan of learning, ``choices`` are variant and penalty of each target column.
    A person's pattern and part decide which regression predicts, and only the dealer knows them:
    everybody is predicted by all regressions that are asked for, and the dealer's weights keep one.
    """
    (features,) = yield from _features(computer, plan, inputs, ["asked"])
    tasks, rows, places = {}, {}, {}
    for t, name in enumerate(plan.views):
        for pattern, part in plan.asked.get(name, ()):
            for variant, pairs in enumerate(variants(known)):
                columns = np.flatnonzero(choices[name][0] == variant)
                blocks = known.usable(t, pattern, pairs=pairs, least=least)
                if len(blocks) < 2 or not len(columns):
                    continue
                informing = known.informing(t, blocks)
                at = known.columns_of(blocks)[informing]
                task = f"{name}/{pattern}/{part}/{variant}"
                penalties = known.penalties[choices[name][1][columns]]
                penalties = penalties * known.moment_scale(known.learning_folds(part))
                covariance = learned.covariance[str(part)][np.ix_(at, at)]
                cross = learned.cross[f"{part}/{name}"][at]
                tasks[task] = Task(covariance, cross, columns, penalties)
                rows[task] = _beside(features, blocks, informing)
                places[task] = (f"{name}/{pattern}/{part}", columns, plan.targets[t])
    weights = yield from _solve(computer, plan, tasks)
    predicted: dict[str, Words] = {}
    for task, (label, columns, width) in places.items():
        cells = computer.product(f"{task}/predicted", rows[task], weights[task])
        whole = predicted.setdefault(label, computer.zeros((len(cells), width)))
        whole[:, columns] = cells
    masked = yield from computer.mask(predicted)
    chosen: dict[str, Words] = {}
    for label, value in masked.items():
        name = label.rsplit("/", 2)[0]
        cells = computer.weighted(computer.weigh(label, f"asked/{label}", value))
        chosen[name] = chosen[name] + cells if name in chosen else cells
    return chosen
