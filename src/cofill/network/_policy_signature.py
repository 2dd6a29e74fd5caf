"""Which policy a site's operator has read and signed: its hash, kept outside the site's folder.

Whoever can write to the folder of `site.toml` (a deployment tool, a colleague, a program that went
astray) could loosen `policy.toml` there, or remove it so that the default is in force. So a policy
counts only if its hash is what the operator has left in the folder of keys
(`cofill.paths.keys_folder`), by `cofill site policy --sign`. A hash there and not a signature by
the site's key: a policy is for all federations of a site, each of which has keys of its own, and
nobody but the site itself has to be convinced.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from cofill.errors import SettingError
from cofill.files import read_document, write_document
from cofill.paths import keys_folder

_FORMAT = "cofill.policy-signature"


def signature_file(policy: Path, keys: Path | None = None) -> Path:
    """Return where the hash of a policy is kept, whether or not there is one."""
    place = hashlib.blake2b(str(policy.resolve()).encode(), digest_size=8).hexdigest()
    return (keys or keys_folder()) / f"policy-{place}.json"


def sign_policy(policy: Path, by: str, keys: Path | None = None) -> str:
    """Have a policy as it is now count from now on; return its hash."""
    try:
        digest = _digest(policy.read_bytes())
    except OSError as error:
        raise SettingError(f"{policy} cannot be read: {error.strerror}") from None
    path = signature_file(policy, keys)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"policy": str(policy.resolve()), "hash": digest, "by": by, "at": now}
    write_document(path, _FORMAT, document, private=True)
    return digest


def require_signed(policy: Path, content: bytes | None) -> None:
    """Raise a `SettingError` unless a policy's content is what its operator has signed.

    None is for no file, which is what a site has whose operator never signed one.
    """
    path = signature_file(policy)
    way_out = "read it, then `cofill site policy --sign --config site.toml`"
    if content is None:
        if path.exists():
            raise SettingError(
                f"{policy} must be there, because its operator has signed one; restore it, or "
                f"remove {path} to go back to the default"
            )
    elif not path.exists():
        raise SettingError(f"{policy} must be signed by the site's operator; {way_out}")
    elif read_document(path, _FORMAT).get("hash") != _digest(content):
        raise SettingError(
            f"{policy} must be the policy that its operator has signed, and was changed since; "
            f"{way_out}, or restore it"
        )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()
