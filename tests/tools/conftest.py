"""The service with a scripted model, and what it works with."""

import pytest

from mnemic.nodes.resources import Resources
from mnemic.service.memory import Mnemic
from tests.support.fixtures import model as model
from tests.support.fixtures import resources as resources


@pytest.fixture
def memory(resources: Resources) -> Mnemic:
    """The service on those resources."""
    return Mnemic(resources)
