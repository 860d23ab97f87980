"""The jobs, a module each. A new module with a `JOB` is a new job."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from mnemic.memory.background.work import Job


def _load_jobs() -> Mapping[str, Job]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    jobs: list[Job] = [module.JOB for module in modules]
    return MappingProxyType({job.name: job for job in jobs})


#: Every job by its name.
JOBS = _load_jobs()
