"""Gives processes of the bench two protocols that carry bytes, under names that orders may have."""

import os

if "COFILL_BENCH" in os.environ:
    from bench.carrying import Echo, Relay

    from cofill.network import _experiments

    _experiments._EXPERIMENTS |= {"mean": Echo, "cluster": Relay}
