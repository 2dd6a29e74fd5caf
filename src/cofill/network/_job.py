"""The one job of FLARE that a federation runs: written by a submitter, recognised by every party.

A job's configuration names classes and their arguments, and FLARE builds them. So nothing in it is
taken as it comes: a party makes the configuration that an order has, compares the whole of it, and
refuses a job with any other component, argument, filter or file. The order travels as one text of
letters and digits: in any other text FLARE fills in variables of the machine's environment, and in
a table it builds what looks like a component.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from cofill.errors import DataError, SettingError
from cofill.files import write_json
from cofill.network._kits import Kit
from cofill.network._order import CONTROLLER, EXECUTOR, TOLERATES_ABSENCE, RunOrder

_SERVER, _CLIENT = "config/config_fed_server.json", "config/config_fed_client.json"
_SIGNATURES = {".__nvfl_sig.json", ".__nvfl_submitter.crt"}
_FILES = {_SERVER, _CLIENT} | {
    f"{folder}{name}" for folder in ("", "config/") for name in _SIGNATURES
}
_MOST_BYTES = 2**20  # of a file of a job
_FOREIGN = "a job must be the one that `cofill federation run` writes"


def write_job(order: RunOrder, kit: Kit, folder: Path, present: Collection[str] = ()) -> None:
    """Write a job of FLARE that names two classes of cofill and brings no code."""
    sites = [name for name in kit.federation.names if not present or name in present]
    meta = {
        "name": order.run,
        "resource_spec": {},
        # FLARE ends a job that has fewer sites left.
        "min_clients": 1 if order.tolerates_absence else len(sites),
        "mandatory_clients": [] if order.tolerates_absence else sites,
        "deploy_map": {"app": ["server", *sites]},
        TOLERATES_ABSENCE: order.tolerates_absence,
    }
    (folder / "app" / "config").mkdir(parents=True)
    write_json(folder / "meta.json", meta)
    for name, config in _configurations(pack_order(order)).items():
        write_json(folder / "app" / name, config)


def read_job(app: Path) -> RunOrder:
    """Return the order of a job's application folder; raise a `DataError` unless it is whole.

    A `SettingError` is about the order itself.
    """
    files = {str(path.relative_to(app)) for path in app.rglob("*") if not path.is_dir()}
    links = [path for path in (app, *app.rglob("*")) if path.is_symlink()]
    if files - _FILES or links:
        raise DataError(f"{_FOREIGN}; this one has other files; refused")
    try:
        documents = {name: _read(app / name) for name in (_SERVER, _CLIENT)}
        packed = documents[_CLIENT]["executors"][0]["executor"]["args"]["order"]
    except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError):
        raise DataError(f"{_FOREIGN}; the configuration of this one is another; refused") from None
    order = unpack_order(packed)
    # Compared as text: 1, 1.0 and true are equal in Python.
    wanted = {name: json.dumps(config) for name, config in _configurations(packed).items()}
    if wanted != {name: json.dumps(config) for name, config in documents.items()}:
        raise DataError(f"{_FOREIGN}; the configuration of this one is another; refused")
    return order


def _read(path: Path) -> Any:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError
    return json.loads(path.read_text(encoding="utf-8"))


def pack_order(order: RunOrder) -> str:
    """Return an order as a text of letters, digits, ``-`` and ``_``."""
    content = json.dumps(order.to_json(), sort_keys=True).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def unpack_order(packed: Any) -> RunOrder:
    """Return what `pack_order` was given; raise a `DataError` for anything else."""
    try:
        padded = packed.encode("ascii") + b"=" * (-len(packed) % 4)
        fields = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        order = RunOrder(**fields)
    except (AttributeError, ValueError, TypeError, binascii.Error, RecursionError) as error:
        if isinstance(error, SettingError):
            raise
        raise DataError("a job's order is malformed; refused") from None
    if pack_order(order) != packed:
        raise DataError("a job's order is malformed; refused")
    return order


def _configurations(packed: str) -> dict[str, Any]:
    """Return the configurations of a job, by the names of their files."""
    arguments = {"args": {"order": packed}}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": 0.05},
        "dead_client_grace_period": 5.0,
        "workflows": [{"id": "cofill", "path": CONTROLLER, **arguments}],
        "components": [],
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["step"], "executor": {"path": EXECUTOR, **arguments}}],
        "task_result_filters": [],
        "task_data_filters": [],
        "components": [],
    }
    return {_SERVER: server, _CLIENT: client}
