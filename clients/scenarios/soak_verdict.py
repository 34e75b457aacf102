"""Judges a soak by the events of the workers and the jobs that the server has at the end."""

import collections
import datetime

from soak_load import ATTEMPTS


def verdict(load, chaos, server):
    """Prints the counts, and returns the broken promises."""
    events = [event for driver in chaos.drivers for event in driver.all_events("started")]
    ended = collections.Counter(event["id"] for driver in chaos.drivers for event in driver.all_events("ended"))
    started = collections.defaultdict(list)
    for event in events:
        started[event["id"]].append(event["at"])
    must_run = load.put.keys() - load.cancelled.keys() - load.unknown
    faults = [f"{id} is lost" for id in must_run if not ended[id]]
    faults += [f"{event} is early" for event in events if event["at"] < milliseconds(event["due_at"])]
    faults += [
        f"{id} ran after its cancellation" for id, at in load.cancelled.items() if max(started[id], default=0) > at
    ]
    faults += load.failed_puts
    doubles = unexplained = 0
    for id, (topic, fails) in load.put.items():
        if fails:
            faults += dead_faults(server, id)
            continue
        times = sorted(started[id])
        doubles += max(0, ended[id] - 1)
        if ended[id] > 1 and not is_explained(times, load.calls[id], chaos.kills):
            unexplained += 1
            faults.append(f"{id} ran {ended[id]} times, and nothing was killed meanwhile: {story(id, chaos)}")
        if topic == "reminders":
            job = server.job(id)
            if not job or job.get("result") != {"sent": True}:
                faults.append(f"the result of {id} is lost: {job}")
    faults += chaos.faults
    print(
        f"{len(load.put)} puts, {len(events)} attempts, {len(load.cancelled)} cancelled, "
        f"{load.refused_cancels} cancels refused, {len(load.unknown)} cancels without a known state, "
        f"{len(chaos.kills)} kills, {len(chaos.stops)} stops, {doubles} doubles, {unexplained} of them unexplained, "
        f"{len(faults)} faults",
        flush=True,
    )
    return faults


def is_explained(times, call, kills):
    """Whether a kill explains a second run: between the runs, or during the put.

    A put whose answer a kill has lost is repeated. If the job is finished and gone by then, it is made anew.
    """
    return any(times[0] <= kill <= times[-1] or call[0] <= kill <= call[1] for kill in kills)


def story(id, chaos):
    """Returns the attempts of a job, and the kills and stops around them, in seconds after its first start."""
    runs = [
        (event["at"], f"started by {driver.pid}")
        for driver in chaos.drivers
        for event in driver.all_events("started", id=id)
    ]
    first, last = min(runs)[0], max(runs)[0]
    runs += [(at, "kill") for at in chaos.kills] + [(at, "stop") for at in chaos.stops]
    near = sorted(entry for entry in runs if first - 10_000 < entry[0] < last + 1000)
    return ", ".join(f"{(at - first) / 1000:.3f} {what}" for at, what in near)


def dead_faults(server, id):
    """Returns the fault of a failing job that is not dead after its attempts."""
    job = server.job(id)
    if job and job["state"] == "dead" and job["attempt"] == ATTEMPTS:
        return []
    return [f"{id} should be dead after {ATTEMPTS} attempts: {job}"]


def milliseconds(text):
    """Returns a time of the API in Unix milliseconds."""
    return datetime.datetime.fromisoformat(text).timestamp() * 1000
