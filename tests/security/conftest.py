"""Federations of one process in which every site has the policy of a site without a policy file."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.network.conftest import Here
from tests.network.conftest import here as here
from tests.network.conftest import rows_here as rows_here

from cofill.network._policy import SitePolicy


@pytest.fixture
def rows_at(rows_here) -> Callable[..., Here]:
    """Return a maker of federations split by row; sites have the default policy unless told."""

    def make(experiment: str, settings: dict[str, Any], policy: Any = None, **options: Any) -> Here:
        federation = rows_here(experiment, settings, **options)
        policy = policy or SitePolicy()
        for name, config in federation.configs.items():
            federation.configs[name] = replace(config, policy=policy)
        return federation

    return make
