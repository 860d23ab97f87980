"""The service with a scripted model."""

from tests.support.scripted import model as model
