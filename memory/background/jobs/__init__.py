"""The jobs, a module each. A module with a `JOB` is a job; nothing else lists it."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from mnemic.memory.background.work import Job


def _load_jobs() -> Mapping[str, Job]:
    jobs: dict[str, Job] = {}
    for module in iter_modules(__path__):
        job: Job = import_module(f"{__name__}.{module.name}").JOB
        jobs[job.name] = job
    return MappingProxyType(jobs)


#: Every job by its name.
JOBS = _load_jobs()
