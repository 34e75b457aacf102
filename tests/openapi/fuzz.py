"""Runs schemathesis against a server on each store. Fails if schemathesis finds a fault or makes too few requests."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from server import started

HERE = Path(__file__).parent
EXAMPLES, CASES = int(sys.argv[1]), int(sys.argv[2])


def run(store):
    with started(store) as (base, token), tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.ndjson"
        command = ["schemathesis", "--config-file", str(HERE / "schemathesis.toml"), "run", f"{base}/openapi.json"]
        options = ["--url", base, "--header", f"Authorization: Bearer {token}", "--checks", "all"]
        options += ["--max-examples", str(EXAMPLES), "--report", "ndjson", "--report-ndjson-path", str(report)]
        begin = time.monotonic()
        # schemathesis leaves files in the folder where it runs.
        environment = os.environ | {"SCHEMATHESIS_HOOKS": str(HERE / "hooks.py")}
        found = subprocess.run([*command, *options], cwd=folder, env=environment).returncode
        statuses = count(report)
        cases = sum(statuses.values())
        print(f"{store}: {cases} cases in {time.monotonic() - begin:.0f} s: {dict(sorted(statuses.items()))}")
        return found == 0 and cases >= CASES


def count(report):
    """Returns the number of answers in the report, by status."""
    lines = (json.loads(line) for line in report.read_text().splitlines())
    finished = (line["ScenarioFinished"]["recorder"] for line in lines if "ScenarioFinished" in line)
    asked = (one for recorder in finished for one in recorder.get("interactions", {}).values())
    return Counter(one["response"]["status_code"] for one in asked if one.get("response"))


fine = [run(store) for store in ["file", "redis"]]
sys.exit(0 if all(fine) else 1)
