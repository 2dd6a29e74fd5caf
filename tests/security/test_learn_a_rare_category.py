"""A peer wants the one person with a rare diagnosis: only common categories are told."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from cofill.completion import Completed
from cofill.errors import DataError, SettingError
from cofill.network._config import FederationConfig, Member, SiteConfig, ViewSource
from cofill.network._faults import fault_for_others
from cofill.network._site_tables import read_site_views, require_common_categories
from cofill.views import Feature, Kind, MultiView, View, write_table


def diagnoses(rare: int) -> dict[str, View]:
    cells = np.repeat([0.0, 1.0, np.nan], [60, rare, 5])[:, None]
    feature = Feature("diagnosis", Kind.CATEGORICAL, ("common", "rare"))
    return {
        "u": View("u", np.arange(len(cells)), np.hstack([cells, cells * 0 + 1]), [feature, "x"])
    }


def test_a_category_of_a_few_people_stops_the_run_here():
    with pytest.raises(DataError, match="1 categories that fewer than 10 people have") as caught:
        require_common_categories(diagnoses(9), 10)
    assert "rare'" not in str(caught.value)


def test_a_category_of_enough_people_is_told():
    require_common_categories(diagnoses(10), 10)


# --- an agreed list -------------------------------------------------------------------------------

AGREED = {"u": {"diagnosis": ("none", "common", "rare")}}


def site_with(folder: Path, cells: list[str]) -> tuple[SiteConfig, FederationConfig]:
    """Return a site whose table has these diagnoses, in a federation that agreed on a list."""
    folder.mkdir()
    lines = [f"p{k:03},{cell},{k}.5" for k, cell in enumerate(cells)]
    (folder / "u.csv").write_text("\n".join(["id,diagnosis,x", *lines]) + "\n")
    config = SiteConfig({"u": ViewSource(str(folder / "u.csv"), "id")}, folder / "results")
    members = (Member("a", "a", ("u",)), Member("b", "b", ("u",)))
    federation = FederationConfig(
        "test", "localhost", 8002, members, shared=("u",), categories=AGREED
    )
    return config, federation


def test_sites_tell_the_agreed_list_whoever_is_there(tmp_path):
    many = ["common"] * 30 + ["rare", ""]
    views = []
    for name, cells in {"a": many, "b": ["none"] * 15, "c": ["common", "none"] * 8}.items():
        config, federation = site_with(tmp_path / name, cells)
        (view,) = read_site_views(config, federation).values()
        require_common_categories({"u": view}, 10, federation.categories)
        views.append((view, cells))
    # What leaves is the same, so that it tells of nobody.
    assert len({view.features for view, _ in views}) == 1
    for view, cells in views:
        categories = view.features[0].categories
        held = ["" if np.isnan(c) else categories[int(c)] for c in view.cells[:, 0]]
        assert held == cells


def test_a_value_outside_the_list_stops_the_run_here_and_is_not_told(tmp_path):
    config, federation = site_with(tmp_path / "a", ["common"] * 30 + ["gout"])
    with pytest.raises(DataError, match="has 1 values that the federation's list") as caught:
        read_site_views(config, federation)
    assert "gout" not in str(caught.value)
    assert "gout" not in fault_for_others(caught.value)


def test_cells_of_an_agreed_column_are_written_as_they_were(tmp_path):
    config, federation = site_with(tmp_path / "a", ["rare", "common", "", "common"])
    (view,) = read_site_views(config, federation).values()
    people = MultiView([view])
    done = np.where(np.isnan(view.cells), 0.0, view.cells)
    write_table(Completed(people, {"u": done}).filled("u"), tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    assert text == (tmp_path / "a" / "u.csv").read_text().replace("p002,,", "p002,none,")


@pytest.mark.parametrize("values", [["a"], ["a", "a"], ["a", 1], []])
def test_a_list_has_different_values_of_one_type(tmp_path, values):
    path = tmp_path / "federation.toml"
    path.write_text(
        '[coordinator]\naddress = "localhost"\n[[sites]]\nname = "a"\n[[sites]]\nname = "b"\n'
        f"[categories.u]\ndiagnosis = {json.dumps(values)}\n"
    )
    with pytest.raises(SettingError, match=r"categories.u.diagnosis must be two values or more"):
        FederationConfig.read(path)


def test_a_kit_keeps_the_list(tmp_path):
    _, federation = site_with(tmp_path / "a", ["none"])
    again = FederationConfig.from_json(json.loads(json.dumps(asdict(federation))))
    assert again.categories == AGREED
