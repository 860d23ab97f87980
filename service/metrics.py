"""Figures for Prometheus: of the whole database, read at each scrape, and of this process since it began.

No label has the id of an agent or a user, or contents.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from mnemic.memory.runtime.events import BUCKETS, EventLog
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import ConfigurationError
from mnemic.state.events import Figure
from mnemic.storage.events import service_figures

if TYPE_CHECKING:
    from prometheus_client import Metric

#: Name, help and labels of each figure of the database.
_FIGURES: Final = {
    "jobs": ("mnemic_jobs", "Jobs in the queue.", ("job", "status")),
    "oldest_job_seconds": ("mnemic_oldest_job_seconds", "Seconds that the oldest waiting job has waited.", ("job",)),
    "failed_jobs": ("mnemic_failed_jobs", "Work that failed: to be tried again, or not.", ("job", "status")),
    "model_calls": ("mnemic_model_calls_total", "Calls of models.", ("step",)),
    "model_tokens": ("mnemic_model_tokens_total", "Tokens of models.", ("step", "direction")),
}


async def metrics_text(resources: Resources, *, with_process: bool = True) -> str:
    """Return all figures in Prometheus' text format.

    Args:
        resources: of the process.
        with_process: whether figures of this process are among them: events, durations, the pool of connections.

    Raises:
        ConfigurationError: prometheus-client is not installed.
        DatabaseUnavailableError: the database cannot be reached.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.registry import Collector
    except ImportError:
        raise ConfigurationError(
            "metrics need the package prometheus-client: run `pip install prometheus-client`"
        ) from None

    metrics = [*_of_database(await service_figures(resources.database))]
    if with_process:
        metrics += [*_of_process(resources.events), _of_pool(resources)]

    class Figures(Collector):
        def collect(self) -> Iterable["Metric"]:
            return metrics

    registry = CollectorRegistry()
    registry.register(Figures())
    return generate_latest(registry).decode()


def _of_database(figures: Sequence[Figure]) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for measure, (name, text, labels) in _FIGURES.items():
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        metric = family(name, text, labels=labels)
        for figure in figures:
            if figure.measure == measure:
                metric.add_metric((figure.name, figure.status)[: len(labels)], figure.amount)
        yield metric


def _of_process(events: EventLog) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    count = CounterMetricFamily("mnemic_events_total", "Events of this process.", labels=("node", "op", "status"))
    durations = HistogramMetricFamily(
        "mnemic_event_seconds", "Durations of events of this process.", labels=("node", "op", "status")
    )
    lost = CounterMetricFamily("mnemic_events_lost_total", "Events of this process that were not recorded.")
    lost.add_metric((), events.lost)
    for names, total in events.totals.items():
        count.add_metric(names, total.occurrences)
        if any(total.buckets):
            bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
            durations.add_metric(names, [*zip(bounds, accumulate(total.buckets), strict=True)], total.seconds)
    yield from (count, durations, lost)


def _of_pool(resources: Resources) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    metric = GaugeMetricFamily("mnemic_pool", "Connections of this process to the database.", labels=("state",))
    for name, amount in resources.database.pool_figures().items():
        metric.add_metric((name,), amount)
    return metric
