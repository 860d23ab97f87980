"""The service with a scripted model."""

from collections.abc import Iterator

import pytest

from tests.support.loopback import LoopbackModel, offering
from tests.support.scripted import administration as administration
from tests.support.scripted import memory as memory
from tests.support.scripted import resources as resources
from tests.support.scripted import scripted_model


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    """The scripted model behind `memory`; as an agent it says one thing."""
    with scripted_model() as running:
        running.answer(offering("memory_query"), "I see.")
        yield running
