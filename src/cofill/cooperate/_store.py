"""A fitted cooperative model as one file: arrays in safetensors, the rest in JSON, no one's row.

Saved are scalers, encoders, links, masks' statistics, fusions and residuals. Views, codes and
blinded ids are not: a loaded model completes new views, and learns more only after a new fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cofill.cooperate._defence import CodeDefence
from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._opposed import joined
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._settings import Architecture, CooperativeSettings
from cofill.cooperate._site import CooperativeSite, Encoder, Link, Model
from cofill.errors import StoreError
from cofill.nets import (
    MLP,
    Block,
    DPSettings,
    Fusion,
    FusionSettings,
    Moments,
    TrainSettings,
    load_arrays,
    save,
)
from cofill.privacy import Budget, CodeSpec
from cofill.views import Feature, Scaler, View

__all__ = ["load_sites", "save_sites"]

_KIND, _VERSION = "cofill.cooperative", 1


def save_sites(
    path: str | Path, sites: Mapping[str, CooperativeSite], parameters: Mapping[str, Any]
) -> None:
    """Write fitted sites and the estimator's parameters to one file."""
    arrays: dict[str, np.ndarray] = {}
    # Lists, not maps: the file's JSON sorts keys, and the order of sites and links means something.
    described = [[name, _pack_site(site, arrays, name)] for name, site in sites.items()]
    metadata = {
        "kind": _KIND,
        "kind_version": _VERSION,
        "parameters": {k: _plain(v) for k, v in parameters.items()},
        "sites": described,
    }
    save(path, arrays, metadata)


def load_sites(path: str | Path) -> tuple[dict[str, CooperativeSite], dict[str, Any]]:
    """Read what `save_sites` wrote; raise a `StoreError` for anything else."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != _KIND:
        raise StoreError(f"{path} is no cooperative model; it was saved as something else")
    if metadata.get("kind_version") != _VERSION:
        raise StoreError(
            f"{path} was saved in format {metadata.get('kind_version')}, this version reads "
            f"{_VERSION}; use the cofill that saved it"
        )
    try:
        sites = {
            name: _unpack_site(name, described, arrays) for name, described in metadata["sites"]
        }
        return sites, {k: _restored(k, v) for k, v in metadata["parameters"].items()}
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(
            f"{path} is no complete cooperative model ({type(error).__name__}); save it again"
        ) from None


def _plain(value: Any) -> Any:
    """Turn a parameter into what JSON can hold."""
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def _restored(name: str, value: Any) -> Any:
    """Turn a saved parameter back into its settings object."""
    if not isinstance(value, dict):
        return value
    if name == "architecture":
        return Architecture(tuple(value["encoder"]), tuple(value["link"]))
    if name == "defence":
        return CodeDefence(**value)
    if name == "budget":
        return Budget(**value)
    if name == "fusion":
        lists: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in value.items()
        }
        return FusionSettings(**lists)
    dp = value.get("dp")
    return TrainSettings(**{**value, "dp": None if dp is None else DPSettings(**dp)})


def _pack_site(site: CooperativeSite, arrays: dict[str, np.ndarray], at: str) -> dict[str, Any]:
    if site.scaler is None or site.encoder is None:
        raise StoreError(f"site {site.name!r} is not fitted and cannot be saved; fit it first")
    model = site.model
    if site.typical is not None:
        arrays[f"{at}/typical"] = site.typical
    settings = {f.name: _plain(getattr(site.settings, f.name)) for f in fields(site.settings)}
    return {
        "settings": settings,
        "seed": site.seed,
        "secret": site.secret.hex(),
        "others": list(site.others),
        "notes": list(site.notes),
        "scaler": site.scaler.to_dict(),
        "id_name": site.view.id_name,
        "encoder": {
            "spec": asdict(site.encoder.spec),
            "encoder": _pack_mlp(site.encoder.network.encoder, arrays, f"{at}/encoder"),
            "decoder": _pack_mlp(site.encoder.network.decoder, arrays, f"{at}/decoder"),
        },
        "links": [
            [peer, _pack_link(link, arrays, f"{at}/link/{peer}")]
            for peer, link in model.links.items()
        ],
        "statistics": _pack_fields(model.statistics, arrays, f"{at}/statistics"),
        "fusion": _pack_fusion(model.fusion, arrays, f"{at}/fusion"),
        "use_fusion": model.use_fusion,
        "residuals": _pack_fields(model.residuals, arrays, f"{at}/residuals"),
        "link_residuals": [
            peer
            for peer, left in model.link_residuals.items()
            if _pack_fields(left, arrays, f"{at}/link_residuals/{peer}")
        ],
    }


def _unpack_site(
    name: str, described: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> CooperativeSite:
    scaler = Scaler.from_dict(described["scaler"])
    settings = CooperativeSettings(**{k: _restored(k, v) for k, v in described["settings"].items()})
    encoder = described["encoder"]
    network = joined(
        _unpack_mlp(encoder["encoder"], arrays, f"{name}/encoder"),
        _unpack_mlp(encoder["decoder"], arrays, f"{name}/decoder"),
    )
    model = Model(
        links={
            peer: _unpack_link(link, arrays, f"{name}/link/{peer}")
            for peer, link in described["links"]
        },
        statistics=_unpack_fields(
            MaskStatistics, described["statistics"], arrays, f"{name}/statistics"
        ),
        fusion=_unpack_fusion(described["fusion"], arrays, f"{name}/fusion"),
        use_fusion=described["use_fusion"],
        residuals=_unpack_fields(Residuals, described["residuals"], arrays, f"{name}/residuals"),
        link_residuals={
            peer: _unpack_fields(Residuals, True, arrays, f"{name}/link_residuals/{peer}")
            for peer in described["link_residuals"]
        },
    )
    return CooperativeSite(
        name=name,
        view=_empty_view(name, scaler.features, described["id_name"]),
        settings=settings,
        seed=described["seed"],
        secret=bytes.fromhex(described["secret"]),
        others=tuple(described["others"]),
        scaler=scaler,
        typical=arrays[f"{name}/typical"],
        encoder=Encoder(network, CodeSpec(**encoder["spec"])),
        model=model,
        notes=tuple(described["notes"]),
    )


def _empty_view(name: str, features: tuple[Feature, ...], id_name: str) -> View:
    return View(name, [], np.empty((0, len(features))), features, id_name=id_name)


def _pack_mlp(network: MLP, arrays: dict[str, np.ndarray], at: str) -> dict[str, Any]:
    for k, (weights, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        arrays[f"{at}/weights/{k}"] = np.asarray(weights)
        arrays[f"{at}/bias/{k}"] = np.asarray(bias)
    if network.skip is not None:
        arrays[f"{at}/skip"] = np.asarray(network.skip)
    return {
        "widths": [network.weights[0].shape[1], *(b.shape[0] for b in network.biases)],
        "activation": network.activation,
        "output": network.output,
        "dropout": network.dropout,
        "residual": network.skip is not None,
    }


def _unpack_mlp(described: Mapping[str, Any], arrays: Mapping[str, np.ndarray], at: str) -> MLP:
    empty = MLP(
        tuple(described["widths"]),
        key=jax.random.key(0),
        activation=described["activation"],
        output=described["output"],
        dropout=described["dropout"],
        residual=described["residual"],
    )
    layers = range(len(empty.weights))
    filled: dict[str, Any] = {
        "weights": tuple(jnp.asarray(arrays[f"{at}/weights/{k}"]) for k in layers),
        "biases": tuple(jnp.asarray(arrays[f"{at}/bias/{k}"]) for k in layers),
        "skip": jnp.asarray(arrays[f"{at}/skip"]) if described["residual"] else None,
    }
    for attribute, value in filled.items():
        shapes = [np.shape(x) for x in jax.tree.leaves(value)]
        if shapes != [np.shape(x) for x in jax.tree.leaves(getattr(empty, attribute))]:
            raise ValueError(attribute)
        object.__setattr__(empty, attribute, value)
    return empty


def _pack_link(link: Link, arrays: dict[str, np.ndarray], at: str) -> dict[str, Any]:
    arrays[f"{at}/center"], arrays[f"{at}/scale"] = link.center, link.scale
    return {
        "spec": asdict(link.spec),
        "network": None if link.network is None else _pack_mlp(link.network, arrays, f"{at}/mlp"),
        "fusion": _pack_fusion(link.fusion, arrays, f"{at}/fusion"),
    }


def _unpack_link(described: Mapping[str, Any], arrays: Mapping[str, np.ndarray], at: str) -> Link:
    mlp = described["network"]
    return Link(
        CodeSpec(**described["spec"]),
        arrays[f"{at}/center"],
        arrays[f"{at}/scale"],
        network=None if mlp is None else _unpack_mlp(mlp, arrays, f"{at}/mlp"),
        fusion=_unpack_fusion(described["fusion"], arrays, f"{at}/fusion"),
    )


def _pack_fusion(
    fusion: Fusion | None, arrays: dict[str, np.ndarray], at: str
) -> dict[str, Any] | None:
    if fusion is None:
        return None
    moments = fusion.moments
    for name in ("covariance", "cross", "input_mean", "target_mean"):
        arrays[f"{at}/{name}"] = getattr(moments, name)
    arrays[f"{at}/penalty"], arrays[f"{at}/share"] = fusion.penalty, fusion.share
    return {
        "groups": [list(g) for g in moments.groups],
        "blocks": [asdict(b) for b in fusion.blocks],
        "patterns": sorted([list(p) for p in fusion.patterns]),
        "weight_decay": fusion.weight_decay,
        "networks": [
            _pack_mlp(network, arrays, f"{at}/member/{k}")
            for k, network in enumerate(fusion.networks)
        ],
    }


def _unpack_fusion(
    described: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray], at: str
) -> Fusion | None:
    if described is None:
        return None
    groups = tuple((int(a), int(b)) for a, b in described["groups"])
    moments = Moments(
        covariance=arrays[f"{at}/covariance"],
        cross=arrays[f"{at}/cross"],
        input_mean=arrays[f"{at}/input_mean"],
        target_mean=arrays[f"{at}/target_mean"],
        groups=groups,
    )
    outputs = moments.cross.shape[1]
    return Fusion(
        moments=moments,
        penalty=arrays[f"{at}/penalty"],
        networks=tuple(
            _unpack_mlp(mlp, arrays, f"{at}/member/{k}")
            for k, mlp in enumerate(described["networks"])
        ),
        share=arrays[f"{at}/share"],
        blocks=tuple(Block(**b) for b in described["blocks"]),
        patterns=frozenset(tuple(map(bool, p)) for p in described["patterns"]),
        out_of_fold=np.empty((0, outputs)),
        weight_decay=described["weight_decay"],
    )


def _pack_fields(value: Any, arrays: dict[str, np.ndarray], at: str) -> bool:
    """Put an object whose fields are all arrays away; say whether there was one."""
    if value is not None:
        for f in fields(value):
            arrays[f"{at}/{f.name}"] = getattr(value, f.name)
    return value is not None


def _unpack_fields(cls: Any, there: bool, arrays: Mapping[str, np.ndarray], at: str) -> Any:
    return cls(*(arrays[f"{at}/{f.name}"] for f in fields(cls))) if there else None
