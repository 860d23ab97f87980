"""The steps of the maintenance, in the order in which they run."""

from typing import Final

from mnemic.memory.background.maintenance.expire import expire
from mnemic.memory.background.maintenance.pairs import merge_pairs
from mnemic.memory.background.maintenance.prune import prune
from mnemic.memory.background.maintenance.purge import purge
from mnemic.memory.background.maintenance.step import MaintenanceStep

STEPS: Final = (
    MaintenanceStep("expire", expire),
    MaintenanceStep("purge", purge),
    MaintenanceStep("prune", prune),
    MaintenanceStep("pairs", merge_pairs),
)
