"""The steps of the fake in the driver's protocol."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from delay_queue import Bury, DelayQueueError, FakeQueue, Job, Snooze, Worker


def handle(job: Job[Any]) -> Any:
    """Ends as the body says."""
    does = job.body if isinstance(job.body, dict) else {}
    then = does.get("then")
    if then == "raise":
        raise RuntimeError(does["text"])
    if then == "bury":
        raise Bury(does["reason"])
    if then == "snooze":
        return Snooze(does["delay"])
    return does.get("value")


async def run_steps(steps: List[Dict[str, Any]], error_json: Callable[[BaseException], Any]) -> List[Any]:
    """Returns the result of each step."""
    queue, results = FakeQueue(), []
    worker = Worker(queue)
    for topic in {step["put"]["topic"] for step in steps if "put" in step}:
        worker.on(topic)(handle)
    for step in steps:
        try:
            results.append(await run_step(queue, worker, step))
        except DelayQueueError as error:
            results.append({"error": error_json(error)})
    return results


async def run_step(queue: FakeQueue, worker: Worker, step: Dict[str, Any]) -> Any:
    """Runs one step."""
    if "put" in step:
        fields = dict(step["put"])
        return queue.put(fields.pop("topic"), fields.pop("body", None), **fields)
    if "advance" in step:
        return queue.advance(step["advance"])
    if "run" in step:
        return [vars(ran) for ran in await queue.run_due_async(worker)]
    if "cancel" in step:
        return queue.cancel(step["cancel"])
    job = queue.get(step["get"])
    names = ("id", "state", "attempt", "error", "result")
    return None if job is None else {name: job.get(name) for name in names}
