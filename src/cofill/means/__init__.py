"""Released means: each site sends the mean of its rows with noise, within its budget."""

from cofill.means._protocol import MeanProtocol

__all__ = ["MeanProtocol"]
