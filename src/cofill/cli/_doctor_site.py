"""What `cofill doctor --site` looks at: a site's files, policy, keys, ledger and coordinator."""

from __future__ import annotations

import socket
import stat
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cofill.cli._finding import Finding
from cofill.errors import CofillError

if TYPE_CHECKING:
    from cofill.network import Kit, SiteConfig

_WAIT_S = 3.0  # for the coordinator's port


def site_findings(kit_folder: Path, config_file: Path) -> Iterator[Finding]:
    """Yield a finding for everything that a site's operator should know before a run."""
    from cofill.network import Kit, SiteConfig

    kit, fault = _attempt(lambda: Kit.read(kit_folder, "site"))
    if kit is None:
        yield Finding("kit", "problem", fault, "get the kit again, or give another --site")
        return
    yield Finding("kit", "ok", f"{kit.name} in {kit.federation.name}")
    yield _keys(kit)
    yield _coordinator(kit)
    yield from _versions()
    config, fault = _attempt(lambda: SiteConfig.read(config_file, is_unsigned=True))
    if config is None:
        yield Finding("site.toml", "problem", fault, "correct the file, or give another --config")
        return
    yield _tables(kit, config, config_file)
    yield _policy(config, config_file)
    yield _ledger(kit, config)
    yield from _permissions(kit, config, config_file)


def _attempt(read: Callable[[], Any]) -> tuple[Any, str]:
    """Return what was read, or None and the sentence that says why not."""
    try:
        return read(), ""
    except CofillError as error:
        return None, str(error)


def _keys(kit: Kit) -> Finding:
    identity, fault = _attempt(lambda: kit.identity)
    todo = "pin every party's keys: cofill site keys --kit KIT --pin FILE"
    if identity is None:
        return Finding("keys", "problem", fault, "get the kit again")
    others = {name for name in kit.federation.names if name != kit.name} | {"coordinator"}
    lacking = sorted(others - set(identity.others))
    if lacking:
        return Finding("keys", "problem", f"none pinned of {', '.join(lacking)}", todo)
    return Finding("keys", "ok", f"pinned of {len(others)} parties")


def _coordinator(kit: Kit) -> Finding:
    where = f"{kit.federation.address}:{kit.federation.port}"
    try:
        socket.create_connection((kit.federation.address, kit.federation.port), _WAIT_S).close()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        todo = "is it running, and does the firewall let this machine out?"
        return Finding("coordinator", "note", f"{where} does not answer ({reason})", todo)
    return Finding("coordinator", "ok", f"{where} answers")


def _versions() -> Iterator[Finding]:
    for package in ("cofill", "nvflare"):
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(package, "problem", "not installed", "pip install 'cofill[network]'")


def _tables(kit: Kit, config: SiteConfig, config_file: Path) -> Finding:
    from cofill.network import read_people, read_site_views

    def read() -> str:
        config.check_against(kit.federation, kit.name, config_file)
        read_people(config, kit.federation)
        views = read_site_views(config, kit.federation)
        return ", ".join(f"{name}: {len(view):,} individuals" for name, view in views.items())

    words, fault = _attempt(read)
    if words is None:
        return Finding("tables", "problem", fault, "correct site.toml, or the table")
    return Finding("tables", "ok", words)


def _policy(config: SiteConfig, config_file: Path) -> Finding:
    from cofill.network import POLICY_FILE, SiteConfig, SitePolicy

    policy = config.policy
    signed, fault = _attempt(lambda: SiteConfig.read(config_file).policy)
    if signed is None:
        return Finding("policy", "problem", fault, "cofill site policy --sign --config site.toml")
    is_written = (config_file.resolve().parent / POLICY_FILE).exists()
    source = f"{POLICY_FILE}, signed" if is_written else "the default, no file"
    words = f"{source}, digest {policy.digest}, ε = {policy.budget.epsilon:g} in all runs"
    more = sorted(set(policy.without_guarantee) - set(SitePolicy().without_guarantee))
    if more:
        todo = "read what `cofill audit` finds in them"
        words = f"{words}; without a guarantee also {', '.join(more)}"
        return Finding("policy", "note", words, todo)
    return Finding("policy", "ok", words)


def _ledger(kit: Kit, config: SiteConfig) -> Finding:
    from cofill.network import SiteAccount
    from cofill.protocol import PartyFolder

    account = SiteAccount(config.account_folder, PartyFolder(kit.home))
    try:
        account.check()
    except (CofillError, OSError) as error:
        return Finding("ledger", "problem", str(error), "restore ledger and account from a backup")
    return Finding("ledger", "ok", f"goes on from what {account.folder} has noted")


def _permissions(kit: Kit, config: SiteConfig, config_file: Path) -> Iterator[Finding]:
    from cofill.network import POLICY_FILE, SiteAccount
    from cofill.protocol import PartyFolder

    policy = config_file.resolve().parent / POLICY_FILE
    key = SiteAccount(config.account_folder, PartyFolder(kit.home)).key_file
    private = [kit.folder, kit.home, config.account_folder, kit.home / "identity.json"]
    private += [] if key is None else [key.parent, key]
    readable = [str(path) for path in private if _allows(path, 0o077)]
    writable = [str(path) for path in (config_file, policy) if _allows(path, 0o022)]
    if readable or writable:
        words = ", ".join([*readable, *writable])
        todo = "chmod go-rwx what is private, and go-w what you have written"
        yield Finding("permissions", "problem", f"open to others: {words}", todo)
    else:
        yield Finding("permissions", "ok", "private files are for their owner only")


def _allows(path: Path, rights: int) -> bool:
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & rights)
