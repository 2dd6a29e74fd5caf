"""Attacks on updates and common models as they were sent, which ask whose rows were behind them.

The attack is by the run's own network and loss, on the updates of the last rounds, with the common
model that each of them changed; or, where only sums were opened, on the models of these rounds. Of
tables that are learned from sums, an update is what a site adds up, and the model after it the one
that its people alone would make; the loss is how far a person's cells lie from what it expects.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from cofill.attack import Leak, membership_leaks
from cofill.audit._auditors import describe_entries, describe_guarantee
from cofill.audit._evidence import Evidence
from cofill.audit._release import AuditedRelease
from cofill.federate import AbstractCommonModel
from cofill.privacy import LedgerEntry, ModelWeights, Update

_STRANGERS = 300  # enough for a false positive rate of 1 % to be three people
_RATE = 0.01  # of people wrongly taken for members, at which members are counted
_THREAT = (
    "a coordinator who has a person's whole record compares its loss under the common model before "
    "a site's update and after it, over several rounds, and says whether the person is the site's"
)
_MODEL_THREAT = (
    "a site, or the coordinator, who has a person's whole record takes its loss under the common "
    "models of several rounds, and says whether some site trained on the person"
)


def audit_sent_updates(
    entries: Sequence[LedgerEntry], releases: Sequence[Update], evidence: Evidence
) -> AuditedRelease:
    """Tell a site's people from other sites' by the updates that the site has sent."""
    sender = entries[0].sender
    facts = describe_entries(entries, "what a site's training changed in the weights")
    facts |= describe_guarantee(entries)
    models: dict[int, ModelWeights] = {
        model.round: model
        for model in evidence.releases("model")
        if model.receiver == sender and len(model.weights)
    }
    rounds = [
        (update, models[update.round])
        for update in releases
        if update.round in models and update.change.dtype.kind == "f"
    ]
    if not rounds or sender not in evidence.row_sites or len(evidence.row_sites) < 2:
        return AuditedRelease(**facts, reason=_why_not(sender, releases, evidence))
    numbers = ", ".join(str(update.round) for update, _ in rounds)
    learner = evidence.row_sites[sender].learner
    cells = {n: learner.learned_cells(site.rows) for n, site in evidence.row_sites.items()}
    members = cells.pop(sender)
    return AuditedRelease(
        **facts,
        leaks=_membership(
            learner, rounds, *_labelled(members, np.concatenate(list(cells.values())))
        ),
        notes=(
            f"the attack is on the updates of rounds {numbers} as they were sent, by the run's own "
            "network and loss",
            "rows were not searched for: every try would train the whole round again; for small "
            "networks and single steps `cofill audit update` does so",
        ),
    )


def _why_not(sender: str, releases: Sequence[Update], evidence: Evidence) -> str:
    if releases and len(evidence.row_sites) == 1:
        return "there is no other site whose people a site's could be told from"
    return evidence.why_not(sender)


def audit_sent_models(
    entries: Sequence[LedgerEntry], releases: Sequence[ModelWeights], evidence: Evidence
) -> AuditedRelease:
    """Tell people whom the sites trained on from strangers by the common models of several rounds.

    Where sites' updates are summed securely this is all that anybody sees of them: the difference
    of two models is the mean of the updates between.
    """
    facts = describe_entries(entries, "the common model")
    models = {model.round: model for model in releases if len(model.weights)}
    sites = evidence.row_sites
    if len(models) < 2 or not sites or evidence.strangers is None:
        return AuditedRelease(**facts, reason=_why_no_models(len(models), evidence))
    site = next(iter(sites.values()))
    members = np.concatenate([s.learner.learned_cells(s.rows) for s in sites.values()])
    strangers = site.learner.learned_cells(site.encode(evidence.strangers))
    if not (len(members) and len(strangers)):
        reason = "nobody in the sites' rows, or among strangers, has what the model learns from"
        return AuditedRelease(**facts, reason=reason)
    cells, is_member = _labelled(members, strangers)
    untrained = site.learner.start(site.design.seed)
    rounds = sorted(models)
    weights = [untrained, *(models[number].weights for number in rounds)]
    losses = site.learner.log_losses(weights, cells)
    # The model before training is known from the settings: with it, one guesses without a release.
    control, first, last = -losses[0], losses[1], losses[-1]
    numbers = ", ".join(map(str, rounds[:-1]))
    leaks = []
    for scores, words in (
        (first - last, f"what rounds {numbers} changed in the common model"),
        (-last, "the last common model"),
    ):
        leaks += membership_leaks(
            scores[None],
            is_member[None],
            control=control[None],
            name=f"membership, by {words}",
            threat=_MODEL_THREAT,
            rates=(_RATE,),
        )
    note = "the attacks are on the models as they were sent, by the run's own network and loss"
    facts["individuals"] = len(members)
    return AuditedRelease(**facts, leaks=tuple(leaks), notes=(note,))


def _why_no_models(models: int, evidence: Evidence) -> str:
    if evidence.releases("update"):
        return (
            "made from the sites' updates and from nothing else: what it tells of people, they tell"
        )
    if models < 2 or not evidence.row_sites:
        return "models of two rounds, and the rows that sites trained on, are needed to attack them"
    return (
        "rows of people whom no site trained on (strangers) are needed, to tell from them whoever "
        "was trained on"
    )


def _membership(
    learner: AbstractCommonModel,
    rounds: Sequence[tuple[Update, ModelWeights]],
    cells: Float[np.ndarray, "people size"],
    is_member: Bool[np.ndarray, " people"],
) -> tuple[Leak, ...]:
    """Return what a site's updates tell of who is its own."""
    scores, control = np.zeros(len(cells)), np.zeros(len(cells))
    for update, model in rounds:
        weights = model.weights, learner.after_update(model.weights, update.change)
        before, after = learner.log_losses(weights, cells)
        scores += before - after
        control -= before
    return membership_leaks(
        scores[None],
        is_member[None],
        control=control[None],
        name=f"membership, by the updates of {len(rounds)} rounds",
        threat=_THREAT,
        rates=(_RATE,),
    )


def _labelled(
    members: Float[np.ndarray, "members size"], strangers: Float[np.ndarray, "strangers size"]
) -> tuple[Float[np.ndarray, "people size"], Bool[np.ndarray, " people"]]:
    """Return members, then some of the strangers, and who is which."""
    order = np.random.default_rng([0, 0x5EE]).permutation(len(strangers))
    people = np.concatenate([members, strangers[np.sort(order[:_STRANGERS])]])
    return people, np.arange(len(people)) < len(members)
