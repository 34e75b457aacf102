"""Generates a client from a running server's OpenAPI description, and puts, pops and finishes jobs with it."""

import importlib
import subprocess
import sys
import tempfile

from openapi_spec_validator import validate

from server import call, started


def generate(base, folder):
    config = f"{folder}/config.yaml"
    with open(config, "w") as file:
        # The generator does not know these types, so the client gets their bodies as text.
        kinds = ["application/openmetrics-text; version=1.0.0; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"]
        file.write("content_type_overrides:\n" + "".join(f'  "{kind}": text/plain\n' for kind in kinds))
    generator = [sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{base}/openapi.json"]
    options = ["--output-path", f"{folder}/delay_queue_client", "--meta", "none", "--config", config, "--fail-on-warning"]
    subprocess.run([*generator, *options], check=True)
    sys.path.insert(0, folder)


def use(base, token):
    def of(path):
        return importlib.import_module(f"delay_queue_client.{path}")

    models = of("models")
    client = of("client").AuthenticatedClient(base_url=base, token=token)

    job = models.PutJob(topic="orders", id="close:4711", body={"order": 4711}, ttr="90s")
    put = of("api.jobs.put_job").sync_detailed(client=client, body=job)
    assert put.status_code == 201 and put.parsed.state == models.State.READY, put

    refused = of("api.jobs.put_job").sync_detailed(client=client, body=job)
    assert refused.status_code == 409, refused
    assert isinstance(refused.parsed, models.Problem), refused
    assert refused.parsed.code == models.Code.JOB_EXISTS and refused.parsed.applied.value == "no", refused
    assert refused.parsed.state == models.State.READY and refused.parsed.topic == "orders", refused

    popped = of("api.consumers.pop_jobs").sync("orders", client=client, wait="1s", count=10)
    [job] = popped.jobs
    assert (job.id, job.body, job.attempt, job.ttr) == ("close:4711", {"order": 4711}, 1, 90), job
    assert job.reserved_until > job.created_at, job

    late = models.Finish(reservation="0" * 16)
    lost = of("api.consumers.finish_job").sync_detailed(job.id, client=client, body=late)
    assert lost.status_code == 409 and lost.parsed.code == models.Code.RESERVATION_LOST, lost

    held = models.Finish(reservation=job.reservation)
    finished = of("api.consumers.finish_job").sync_detailed(job.id, client=client, body=held)
    assert finished.status_code == 204, finished
    gone = of("api.jobs.get_job").sync(job.id, client=client)
    assert isinstance(gone, models.Problem) and gone.code == models.Code.JOB_NOT_FOUND, gone

    wrong = of("client").AuthenticatedClient(base_url=base, token="dq_wrong")
    unknown = of("api.topics.list_topics").sync_detailed(client=wrong)
    assert unknown.status_code == 401 and unknown.parsed.code == models.Code.UNAUTHENTICATED, unknown


with started("file") as (base, token), tempfile.TemporaryDirectory() as folder:
    validate(call("GET", f"{base}/openapi.json"))
    generate(base, folder)
    use(base, token)
    # The second server of the OpenAPI description has the prefix of the API's version.
    use(f"{base}/v1", token)
print("a generated client puts, pops and finishes, and understands refusals")
