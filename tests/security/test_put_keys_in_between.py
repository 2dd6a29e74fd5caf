"""Whoever hands over a site's new public keys wants to put their own in between."""

import json
from dataclasses import replace

import pytest
from tests.network.test_commands import kits as kits

from cofill.__main__ import main
from cofill.network._identity import Identity, PartyKeys


def digits_in(text: str) -> str:
    """Return the groups of digits that a command has shown."""
    return " ".join(word for word in text.replace(":", " ").split() if word.isdigit())


def keys(*words: str, capsys) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["site", "keys", *words])
    assert ended.value.code in (0, None)
    return digits_in(capsys.readouterr().out)


def test_two_people_read_each_other_the_same_digits_unless_keys_were_exchanged(
    kits, tmp_path, capsys
):
    clinic, lab, public = (*(kits / "sites" / n for n in ("clinic", "lab")), tmp_path / "k.json")
    read = keys("--kit", str(clinic), "--out", str(public), capsys=capsys)
    assert [len(group) for group in read.split()] == [5] * 6
    assert keys("--kit", str(lab), "--pin", str(public), capsys=capsys) == read
    others = {**json.loads(public.read_text()), **Identity.fresh("clinic").public.to_json()}
    public.write_text(json.dumps(others))
    assert keys("--kit", str(lab), "--pin", str(public), capsys=capsys) != read


def test_digits_are_of_both_keys_and_of_the_name():
    honest = PartyKeys(bytes(32), bytes(31) + b"\1")
    changed = [replace(honest, seal=bytes(31) + b"\2"), replace(honest, sign=bytes(32))]
    digits = {honest.digits("lab"), honest.digits("clinic"), *(k.digits("lab") for k in changed)}
    assert len(digits) == 4
