"""A model behind an endpoint on the loopback address."""

from collections.abc import Iterator

import pytest

from tests.support.loopback import LoopbackModel


@pytest.fixture
def endpoint() -> Iterator[LoopbackModel]:
    with LoopbackModel() as model:
        yield model
