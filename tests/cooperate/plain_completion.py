"""`PrivateCompletion` in plain arithmetic: the same alignment, features, folds and choices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.cooperate.plain_computer import PlainComputer, run

from cofill.cooperate import PrivateCompletion
from cofill.cooperate._private_inputs import Choice, LocalModel
from cofill.cooperate._private_learner import (
    PREDICTED_BITS,
    SCORE_BITS,
    SPREAD_BITS,
    ask,
    learn,
    variants,
)
from cofill.cooperate._private_order import common_order
from cofill.cooperate._private_site import PredictedTargets
from cofill.protocol import LocalData


class PlainCompletion(PrivateCompletion):
    """The ideal: a trusted machine has all rows. Views at several sites are not supported.

    Folds and the people learned from are drawn with other randomness than the coordinator's.
    """

    def _fit(self, views, progress):
        protocol = self.protocol(views)
        sites = {}
        for name, view in views.items():
            sites |= protocol.start_site(LocalData(name, {name: view}))
        names = tuple(views)
        width = protocol.settings.features_of(len(names))
        for name, site in sites.items():
            model = LocalModel.fit(site.view, width, names, site.seed, {})
            sites[name] = replace(site, model=model)
        plan, slots, patterns = self._order(sites, {}, self.folds, self.most_people)
        plan.require_learnable(self.min_overlap)
        machine = PlainComputer(plan.weights(patterns, self.min_overlap))
        inputs = _inputs(sites, slots, plan, machine, asking=False)
        learned, scores = run(learn(machine, plan, inputs, self.min_overlap))
        choices = {}
        for name in names:
            labels = [f"{name}/{variant}" for variant in range(len(variants(plan)))]
            errors = np.stack([machine.decode(scores[k], SCORE_BITS) for k in labels])
            choice = Choice.of(errors, machine.decode(scores[f"{name}/spread"], SPREAD_BITS))
            sites[name] = replace(sites[name], choice=choice)
            choices[name] = np.stack([choice.variant, choice.penalty])
        self.plain_ = sites, plan, learned, choices
        self.notes_ = ()

    @property
    def sites_(self):
        return self.plain_[0]

    def _order(self, sites, people, folds, most=None):
        ids = {
            n: np.concatenate([s.view.ids, people.get(n, s.view.ids[:0])]) for n, s in sites.items()
        }
        has_row = {n: np.arange(len(ids[n])) < len(s.view) for n, s in sites.items()}
        return common_order(
            {name: name for name in sites},
            {name: ids[name].tolist() for name in sites},
            has_row,
            {name: ~known for name, known in has_row.items()},
            # Whoever lacks a view's row is in no fold of those that learned.
            {name: np.zeros(len(known), np.int64) for name, known in has_row.items()},
            {name: site.fitted.sizes for name, site in sites.items()},
            {name: site.fitted.group_sizes for name, site in sites.items()},
            folds,
            np.random.default_rng([self.seed, folds]),
            most,
        )

    def _ask(self, views, *, only=None, progress=None):
        fitted, known, learned, choices = self.plain_
        sites, people = {}, {}
        for name, site in fitted.items():
            lacking = views.ids[views[name].positions(views.ids) < 0]
            people[name] = lacking if only in (None, name) else lacking[:0]
            order = np.arange(len(views[name]) + len(people[name]))
            sites[name] = replace(site, view=views[name], people=people[name], order=order)
        plan, slots, patterns = self._order(sites, people, 1)
        weights = {}
        for k, name in enumerate(plan.views):
            is_asked = np.zeros(plan.slots, bool)
            is_asked[slots[name][len(views[name]) :]] = True
            for bits, part in plan.asked[name]:
                label = f"asked/{name}/{bits}/{part}"
                weights[label] = is_asked & (patterns & ~(1 << k) == bits)
        machine = PlainComputer(weights)
        inputs = _inputs(sites, slots, plan, machine, asking=True)
        least = self.min_overlap
        predicted = run(ask(machine, plan, inputs, learned, known, choices, least))
        for k, name in enumerate(plan.views):
            at = np.arange(len(views[name]), len(sites[name].order))
            others = [bits for bits, _ in plan.asked[name]]
            told = np.isin(patterns[slots[name][at]] & ~(1 << k), others)
            if name in predicted and told.any():
                words = predicted[name][slots[name][at[told]]]
                cells = machine.decode(words, PREDICTED_BITS) * np.sqrt(plan.slots)
                asked = PredictedTargets(at[told], cells)
                sites[name] = replace(sites[name], predicted=asked)
        return sites


def _inputs(sites, slots, plan, machine, *, asking):
    inputs = {}
    for name, site in sites.items():
        at = slots[name][: len(site.view)]
        rows = site.view.take(at >= 0)
        table = site.fitted.inputs(rows, at[at >= 0], plan, machine, asking=asking)
        inputs |= {f"{name}/{label}": words for label, words in table.items()}
    return inputs
