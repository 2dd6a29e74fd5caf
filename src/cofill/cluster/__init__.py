"""Groups of individuals, found together by sites that show no row.

::

    _rows        what sites bring, checked
    _scale       one scaling for all sites, from sums
    _site        a site, the coordinator, the steps of scaling
    _lloyd       k-means on weighted rows
    _starts      starting centres from local centroids
    _noise       noise on sums of groups, and its cost
    _kmeans      pooled and federated k-means
    _augment     partners of rows: warps, neighbours
    _network     the networks of deep clustering
    _objective   information maximisation
    _rounds      a round at the sites, compiled
    _deep_settings, _deep   federated deep clustering
    _select      how many groups
    _map         individuals on a plane
    _clusterer, _estimator  FederatedKMeans, DeepClustering
    _job         from files to files
"""

from cofill.cluster._augment import WarpSettings
from cofill.cluster._deep_settings import DeepSettings
from cofill.cluster._estimator import DeepClustering, FederatedKMeans
from cofill.cluster._job import CLUSTERERS, ClusterJob, ClusterResult, run_cluster
from cofill.cluster._kmeans import KMeansSettings, pooled_kmeans
from cofill.cluster._map import PlaneMap, plane_map
from cofill.cluster._map_picture import map_picture
from cofill.cluster._network import NetworkSettings
from cofill.cluster._noise import GroupNoise
from cofill.cluster._objective import ObjectiveSettings
from cofill.cluster._select import Selection, choose_k

__all__ = [
    "CLUSTERERS",
    "ClusterJob",
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
    "pooled_kmeans",
    "run_cluster",
]
