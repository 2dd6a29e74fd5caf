"""A peer wants the one person with a rare diagnosis: only common categories are told."""

import numpy as np
import pytest

from cofill.errors import DataError
from cofill.network._site_tables import require_common_categories
from cofill.views import Feature, Kind, View


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
