"""The service with a scripted model."""

from tests.support.fixtures import administration as administration
from tests.support.fixtures import memory as memory
from tests.support.fixtures import model as model
from tests.support.fixtures import resources as resources
from tests.support.rollbacks import actor as actor
from tests.support.rollbacks import administrator as administrator
from tests.support.rollbacks import person as person
