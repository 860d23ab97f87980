"""The service with a scripted model."""

from tests.support.scripted import administration as administration
from tests.support.scripted import memory as memory
from tests.support.scripted import model as model
from tests.support.scripted import resources as resources
