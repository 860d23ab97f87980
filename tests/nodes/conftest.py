"""The service with a scripted model, for every test of this folder."""

from tests.support.fixtures import administration as administration
from tests.support.fixtures import memory as memory
from tests.support.fixtures import model as model
from tests.support.fixtures import resources as resources
