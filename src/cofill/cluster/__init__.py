"""Groups of individuals, found together by sites that show no row.

K-means (`_kmeans`, `_lloyd`) and deep clustering (`_deep`, `_rounds`, `_network`, `_objective`,
`_augment`) are steps over the same parties (`_parties`), whose rows are checked (`_rows`) and
scaled (`_scale`) alike. Individuals who lack views are grouped across them (`_multiview`,
`_graphs`, `_discriminant`). Names are imported when they are used: a site that adds up groups needs
no networks.
"""

from typing import TYPE_CHECKING

from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill.cluster._augment import WarpSettings
    from cofill.cluster._deep_protocol import DeepClusterProtocol
    from cofill.cluster._deep_settings import DeepSettings
    from cofill.cluster._estimator import DeepClustering, FederatedKMeans
    from cofill.cluster._job import CLUSTERERS, ClusterJob, ClusterResult, run_cluster
    from cofill.cluster._kmeans_settings import GroupNoise, KMeansSettings
    from cofill.cluster._map import PlaneMap, map_picture, plane_map
    from cofill.cluster._multiview import ViewSettings
    from cofill.cluster._multiview_estimator import MultiViewClustering
    from cofill.cluster._network import NetworkSettings
    from cofill.cluster._objective import ObjectiveSettings
    from cofill.cluster._protocol import ClusterProtocol
    from cofill.cluster._select import Selection, choose_k

__all__ = [
    "CLUSTERERS",
    "ClusterJob",
    "ClusterProtocol",
    "ClusterResult",
    "DeepClusterProtocol",
    "DeepClustering",
    "DeepSettings",
    "FederatedKMeans",
    "GroupNoise",
    "KMeansSettings",
    "MultiViewClustering",
    "NetworkSettings",
    "ObjectiveSettings",
    "PlaneMap",
    "Selection",
    "ViewSettings",
    "WarpSettings",
    "choose_k",
    "map_picture",
    "plane_map",
    "run_cluster",
]

__getattr__, __dir__ = lazy_names(__name__)
