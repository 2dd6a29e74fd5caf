"""Groups of individuals, found together by sites that show no row.

::

    _rows            rows of sites, checked
    _scale           one scaling for all sites, from sums
    _noise           noise on sums of groups, and its cost
    _kmeans_settings settings and state of k-means
    _lloyd           k-means on weighted rows
    _starts          starting centres from local centroids
    _parties         sites and coordinator
    _agreement       steps: columns, scaling
    _kmeans          steps: federated k-means
    _protocol        the protocol of k-means, for both drivers
    _augment         partners of rows: warps, neighbours
    _network         the networks of deep clustering
    _objective       information maximisation
    _rounds          a round at the sites, compiled
    _deep_settings, _deep   steps: federated deep clustering
    _select          how many groups
    _map             individuals on a plane, and its picture
    _clusterer, _estimator  FederatedKMeans, DeepClustering
    _assignments, _job      results, and from files to files
"""

from cofill.cluster._augment import WarpSettings
from cofill.cluster._deep_settings import DeepSettings
from cofill.cluster._estimator import DeepClustering, FederatedKMeans
from cofill.cluster._job import CLUSTERERS, ClusterJob, ClusterResult, run_cluster
from cofill.cluster._kmeans_settings import KMeansSettings
from cofill.cluster._map import PlaneMap, map_picture, plane_map
from cofill.cluster._network import NetworkSettings
from cofill.cluster._noise import GroupNoise
from cofill.cluster._objective import ObjectiveSettings
from cofill.cluster._protocol import ClusterProtocol
from cofill.cluster._select import Selection, choose_k

__all__ = [
    "CLUSTERERS",
    "ClusterJob",
    "ClusterProtocol",
    "ClusterResult",
    "DeepClustering",
    "DeepSettings",
    "FederatedKMeans",
    "GroupNoise",
    "KMeansSettings",
    "NetworkSettings",
    "ObjectiveSettings",
    "PlaneMap",
    "Selection",
    "WarpSettings",
    "choose_k",
    "map_picture",
    "plane_map",
    "run_cluster",
]
