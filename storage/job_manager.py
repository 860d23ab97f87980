"""The library's job manager, with an end of jobs that does not fail. Imported with the first queue: it takes 60 ms."""

import logging
from typing import Any

from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from mnemic.storage.transaction import load_statements

_LOG = logging.getLogger("mnemic")
_SQL = load_statements("queue")


class TolerantJobManager(JobManager):
    """Ends a job even if another worker has been given it, or if the database is away at that moment."""

    def __init__(self, connector: Any) -> None:
        super().__init__(connector)
        self._finished: set[int] = set()
        self._broken_off: set[int] = set()

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Delete a job that has ended; queue one again that was broken off."""
        assert job.id is not None
        (self._broken_off if status is Status.ABORTED else self._finished).add(job.id)
        try:
            await self.end_jobs()
        except ConnectorException:
            _LOG.warning(
                "The end of job %s could not be recorded; it is tried again.", job.id, extra={"job_id": job.id}
            )

    async def end_jobs(self) -> None:
        """Record the ends of jobs that have not been recorded yet."""
        for statement, ids in (("finish", self._finished), ("requeue", self._broken_off)):
            ended = list(ids)
            if ended:
                await self.connector.execute_query_async(query=_SQL[statement], ids=ended)
                ids.difference_update(ended)

    async def update_heartbeat(self, worker_id: int) -> None:
        """Record that a worker lives."""
        await self.connector.execute_query_async(query=_SQL["heartbeat"], worker_id=worker_id)

    async def requeue_lost(self, seconds: float) -> None:
        """Queue the jobs of workers that have had no heartbeat for so many seconds."""
        await self.end_jobs()
        await self.connector.execute_query_async(query=_SQL["requeue_lost"], seconds=seconds)
        await self.prune_stalled_workers(seconds)
