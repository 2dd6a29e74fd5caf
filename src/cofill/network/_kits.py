"""Startup kits: one folder per participant, made once by whoever provisions the federation.

FLARE's provisioning makes certificates for mutual TLS. This adds what a kit of cofill must have:
only two classes of cofill may run, nobody may bring code or open a shell, no log leaves a site, and
every party has keys of its own with everybody's public keys pinned. Whoever provisions holds all
of it, unless sites make their own keys afterwards (`renew_keys`, `pin_keys`).
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cofill.errors import SettingError, StoreError
from cofill.files import new_folder, read_document, write_document, write_json
from cofill.network._config import FederationConfig, Member
from cofill.network._identity import Identity, PartyKeys, read_json
from cofill.network._order import CONTROLLER, EXECUTOR
from cofill.protocol import COORDINATOR, PartyFolder

_KEYS_FORMAT = "cofill.public-keys"
# Without a sign, until a site is taken for lost: a machine that stands still for a minute, or is
# cut off, goes on with its run.
_HEARTBEAT_S = 90
_JOB_RIGHTS = ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate")
_NOBODY = dict.fromkeys((*_JOB_RIGHTS, "shell_commands", "byoc", "server-predeployed-flwr"), "none")
_OWN_JOBS = dict.fromkeys(("manage_job", "download_job"), "n:submitter")
_AUTHORIZATION = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": _NOBODY,
        "org_admin": _NOBODY,
        "lead": {**_NOBODY, **_OWN_JOBS, "submit_job": "any", "view": "any"},
        "member": {**_NOBODY, "view": "any"},
    },
}
# One frame on the wire. Streams are cut into frames of a megabyte; larger ones are FLARE's own.
_FRAME = 64 * 2**20
# What a sender of a stream has on its way before the receiver has taken it: each process that it
# passes holds as much of it. On a line of 100 ms it carries 160 MB/s.
_WINDOW = 16 * 2**20
_COMMUNICATION = {
    "streaming_window_size": _WINDOW,
    "streaming_ack_interval": _WINDOW // 4,
    "grpc": {
        "max_workers": 100,
        "options": [
            ["grpc.max_send_message_length", _FRAME],
            ["grpc.max_receive_message_length", _FRAME],
        ],
    },
}
_FLARE_ROLES = {"submit": "lead", "look": "member"}


@dataclass(frozen=True)
class Kit:
    """A participant's kit, read and checked."""

    folder: Path
    kind: Literal["coordinator", "site", "person"]
    name: str
    federation: FederationConfig

    @classmethod
    def read(cls, folder: Path, kind: Literal["coordinator", "site", "person"]) -> Kit:
        """Read a kit, or raise an error that says what it is instead."""
        if not folder.is_dir():
            raise SettingError(
                f"--kit must be a folder that `cofill federation init` made, got {folder}"
            )
        party = PartyFolder(folder / "cofill")
        note = party.read_kit()
        try:
            federation = FederationConfig.from_json(note["federation"])
            kit = cls(folder.resolve(), note["kind"], note["name"], federation)
        except (KeyError, TypeError):
            raise StoreError(f"{party.kit} is damaged; get the kit again") from None
        if kit.kind != kind:
            raise SettingError(
                f"--kit must be the kit of a {kind}, got that of the {kit.kind} {kit.name!r}"
            )
        return kit

    @property
    def home(self) -> Path:
        """Where a party keeps its keys, ledger and runs."""
        return self.folder / "cofill"

    @property
    def identity(self) -> Identity:
        """The party's keys."""
        return Identity.load(self.home)

    @property
    def member(self) -> Member:
        """What the federation says of this site."""
        return next(site for site in self.federation.sites if site.name == self.name)

    def prepare(self) -> None:
        """Write what depends on where the kit lies: FLARE's storage, which must not be in /tmp."""
        path = self.folder / "local" / "resources.json"
        resources = read_json(path)
        if self.kind == "coordinator":
            storage = self.folder / "storage"
            keeper = resources["snapshot_persistor"]["args"]["storage"]["args"]
            keeper["root_dir"] = str(storage / "snapshots")
            for component in resources["components"]:
                if component["id"] == "job_manager":
                    component["args"]["uri_root"] = str(storage / "jobs")
            storage.mkdir(exist_ok=True, mode=0o700)
            mark_abandoned_runs(storage / "jobs")
        write_json(path, resources)


def mark_abandoned_runs(jobs: Path) -> None:
    """Mark runs that were under way when the coordinator was killed: FLARE lists them as running.

    Nothing runs while a kit is prepared; such a run can be resumed once it has ended.
    """
    for path in jobs.glob("*/meta"):
        try:
            meta = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(meta, dict) and meta.get("status") in ("RUNNING", "DISPATCHED"):
            write_json(path, {**meta, "status": "FINISHED:ABANDONED"})


def make_kits(federation: FederationConfig, out: Path) -> None:
    """Make a new folder of kits: for the coordinator, each site and each person.

    The key of the certificate authority is thrown away: nobody can make another certificate for
    this federation, and a new member means new kits.
    """
    if not any(person.role == "submit" for person in federation.people):
        raise SettingError(
            "federation.toml: people must name at least one person with role = 'submit', got none; "
            "nobody could start a run"
        )
    with new_folder(out) as folder, tempfile.TemporaryDirectory() as scratch:
        startup_kits = _provision(federation, Path(scratch))
        _write_kits(federation, startup_kits, folder)


def _provision(federation: FederationConfig, scratch: Path) -> Path:
    """Let FLARE make certificates and configurations; return the folder of its kits."""
    try:
        from nvflare.lighter.impl.cert import CertBuilder
        from nvflare.lighter.impl.static_file import StaticFileBuilder
        from nvflare.lighter.impl.workspace import WorkspaceBuilder
        from nvflare.lighter.provision import prepare_project
        from nvflare.lighter.provisioner import Provisioner
    except ImportError:
        raise SettingError(needs_extra()) from None
    ports = dict.fromkeys(("fed_learn_port", "admin_port"), federation.port)
    participants: list[dict[str, Any]] = [
        {"name": federation.address, "type": "server", "org": "cofill", **ports}
    ]
    participants += [
        {"name": s.name, "type": "client", "org": s.organisation} for s in federation.sites
    ]
    participants += [
        {"name": p.name, "type": "admin", "org": p.organisation, "role": _FLARE_ROLES[p.role]}
        for p in federation.people
    ]
    described = {"api_version": 3, "name": federation.name, "description": ""}
    project = prepare_project({**described, "participants": participants})
    static_files = StaticFileBuilder(config_folder="config", scheme="grpc")
    provisioner = Provisioner(str(scratch), [WorkspaceBuilder(), static_files, CertBuilder()])
    silent = logging.Logger("provisioning", logging.CRITICAL + 1)
    context = provisioner.provision(project, logger=silent)
    startup_kits = context.get("current_prod_dir")
    if not startup_kits or context.get("build_error"):
        raise SettingError("FLARE could not make the kits; check names and address in the file")
    return Path(startup_kits)


def _write_kits(federation: FederationConfig, startup_kits: Path, folder: Path) -> None:
    names = [*federation.names, COORDINATOR]
    identities = {name: Identity.fresh(name) for name in names}
    public = {name: identity.public for name, identity in identities.items()}
    note = {"federation": asdict(federation)}
    for name, identity in identities.items():
        is_site = name != COORDINATOR
        kit = folder / "sites" / name if is_site else folder / name
        kit.parent.mkdir(exist_ok=True)
        shutil.move(str(startup_kits / (name if is_site else federation.address)), kit)
        home = kit / "cofill"
        home.mkdir(mode=0o700)
        kind = "site" if is_site else "coordinator"
        PartyFolder(home).write_kit({"kind": kind, "name": name, **note})
        others = {other: keys for other, keys in public.items() if other != name}
        replace(identity, others=others).save(home)
        _harden(kit, federation)
    for person in federation.people:
        kit = folder / "people" / person.name
        kit.parent.mkdir(exist_ok=True)
        shutil.move(str(startup_kits / person.name), kit)
        (kit / "cofill").mkdir(mode=0o700)
        PartyFolder(kit / "cofill").write_kit({"kind": "person", "name": person.name, **note})
        kit.chmod(0o700)


def _harden(kit: Path, federation: FederationConfig) -> None:
    """Allow what cofill needs of FLARE and nothing else."""
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_list_enforcement_mode"] = "enforce"
    # A prefix would also allow what cofill's modules import, such as a way to start programs.
    resources["class_allow_list"] = [CONTROLLER, EXECUTOR]
    admission = "SiteAdmission" if "client" in resources else "JobAdmission"
    resources["app_validator"] = {"path": f"cofill.network._admission.{admission}"}
    if "client" in resources:
        resources["allow_log_streaming"] = False
    components = []
    for component in resources["components"]:
        if component["id"] in ("site_log_streamer", "log_receiver"):
            continue  # a site's log may say more than its ledger
        if component["id"] == "process_launcher" and "client" in resources:
            component = {**component, "path": "cofill.network._launcher.SiteLauncher"}
        if component["id"] == "job_scheduler":
            at_once = federation.limits.runs_at_once
            component["args"] = {"max_jobs": at_once, "min_schedule_interval": 1.0}
        components.append(component)
    resources["components"] = components
    for server in resources.get("servers", ()):
        server["heart_beat_timeout"] = _HEARTBEAT_S
        server["max_num_clients"] = max(100, len(federation.sites))
    write_json(local / "resources.json", resources)
    write_json(local / "authorization.json", _AUTHORIZATION)
    write_json(local / "comm_config.json", _COMMUNICATION)
    for leftover in ("resources.json.default", "authorization.json.default"):
        (local / leftover).unlink()
    for script in ("start.sh", "sub_start.sh", "stop_fl.sh"):
        # They start FLARE in the background without a site.toml; `cofill site` does not.
        (kit / "startup" / script).unlink(missing_ok=True)
    kit.chmod(0o700)


def renew_keys(kit: Kit, out: Path) -> PartyKeys:
    """Give a party keys that nobody else has ever held; write its public ones for the others."""
    old = kit.identity
    new = replace(Identity.fresh(kit.name), others=old.others)
    if out.exists():
        raise SettingError(f"{out} exists already and is left as it is; give another file")
    write_document(out, _KEYS_FORMAT, {"name": kit.name, **new.public.to_json()})
    new.save(kit.home)
    return new.public


def pin_keys(kit: Kit, path: Path) -> tuple[str, PartyKeys]:
    """Pin another party's new public keys, from the file that it handed over; return its name."""
    document = read_document(path, _KEYS_FORMAT)
    name = document.get("name")
    identity = kit.identity
    if not isinstance(name, str) or name not in identity.others:
        raise SettingError(f"{path}: name must be another member of the federation, got {name!r}")
    keys = PartyKeys.from_json(document, str(path))
    replace(identity, others={**identity.others, name: keys}).save(kit.home)
    return name, keys


def needs_extra() -> str:
    """Return what to do when the engine is not installed."""
    return "this needs NVIDIA FLARE; install it with: pip install 'cofill[network]'"
