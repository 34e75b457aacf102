"""Hooks of schemathesis for rules that the schemas cannot express: values of formats, and rules between fields."""

import datetime
import re

import schemathesis
from hypothesis import strategies as st

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def durations(least, most):
    """Returns durations as text with one unit, from `least` to `most` seconds."""

    def of_unit(unit):
        first, last = -(-least // UNITS[unit]), most // UNITS[unit]
        return st.integers(int(first), int(last)).map(lambda number: f"{number}{unit}")

    return st.sampled_from([unit for unit in UNITS if UNITS[unit] <= most]).flatmap(of_unit)


for least, most in [(0, 315576000), (0.001, 315576000), (1, 86400), (0, 60), (1, 300), (0, 10), (1, 315576000)]:
    schemathesis.openapi.format(f"duration-from-{least}-to-{most}", durations(least, most))

topic = st.from_regex(re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}"), fullmatch=True)
schemathesis.openapi.format("topics", st.lists(topic, min_size=1, max_size=5).map(",".join))

host = st.from_regex(re.compile("[a-z]{1,9}[.]invalid(:[1-9][0-9]{0,3})?"), fullmatch=True)
path = st.from_regex(re.compile("/[a-z0-9/]{0,20}"), fullmatch=True)
schemathesis.openapi.format("push-url", st.builds("{}://{}{}".format, st.sampled_from(["http", "https"]), host, path))

cron_lines = ["* * * * *", "*/5 0-6 * * *", "0 9 * * MON-FRI", "30 2 L * *", "15 30 12 1 1 *", "@daily", "CRON_TZ=Asia/Tokyo 0 0 * * 5#2"]
schemathesis.openapi.format("cron", st.sampled_from(cron_lines))
schemathesis.openapi.format("timezone", st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"]))

trace, span = (st.from_regex(f"[1-9a-f][0-9a-f]{{{digits}}}", fullmatch=True) for digits in (31, 15))
schemathesis.openapi.format("traceparent", st.builds("00-{}-{}-01".format, trace, span))

# A time may be at most ten years ahead.
past, future = datetime.datetime(1990, 1, 1), datetime.datetime.now() + datetime.timedelta(days=3600)
offset = st.sampled_from(["Z", "+00:00", "-08:00", "+05:30"])
times = st.builds("{}{}".format, st.datetimes(past, future).map(lambda time: time.isoformat(timespec="milliseconds")), offset)
schemathesis.openapi.format("date-time", times)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Removes fields from the query that the body has too, since the server refuses such requests; shortens the waits of pops;
    repeats the topic of the path where the body has one; and prevents the test from revoking its own token."""
    # "preview" is the path of another route.
    if (case.path_parameters or {}).get("name") in ("everything", "preview"):
        case.path_parameters["name"] = "another"
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    body, query = case.body if isinstance(case.body, dict) else {}, case.query or {}
    for name in set(query) & set(body):
        del query[name]
    if body.get("topic") is not None and "topic" in (case.path_parameters or {}):
        body["topic"] = case.path_parameters["topic"]
    if body.get("name") is not None and "/schedules/" in case.path:
        body["name"] = (case.path_parameters or {}).get("name")
    for options in (body, query):
        if options.get("wait") is not None:
            options["wait"] = "1ms"


# Rules between fields, or about the store's contents. Only these rules may refuse a request that
# matches its schema.
RULES = [
    "`cursor` must be the `cursor` of an earlier page",
    "`until` must be later than `from`",
    "`step` must",
    "`(due|died)_(after|before)` is for ",
    "`.*due_at` must be at most ten years ahead",
    "must be given once: in the query or in the body",
    "cannot be changed",
    "`topic` must be the topic of the path",
    "`defaults` is missing",
    "`defaults` cannot be combined with the same fields next to it",
    "`expires_at` must be a future time",
    # Parts of a URL, and addresses that are not allowed.
    "`url` must",
    # "***" where no value is stored.
    r"`headers\..*` must be a value",
    # The syntax of URLs, and addresses that are not public.
    "`url` is (invalid|not allowed): ",
    # Limits of durations as text, and maximum lengths of texts in bytes.
    "`(.*ttr|wait|remember|finished_retention|expires_after|timeout|batch.linger)` must be ",
    "must be a duration from 0 to ten years",
    "must be at least one millisecond",
    "`for` must be longer than 0",
    # Rules between the fields of a schedule, and the grammar of cron lines.
    "`cron` or `every` must be given",
    "`every` cannot be combined",
    "`(timezone|anchor)` ",
    "`end` must be after `start`",
    "`every` must be from 1 second to ten years",
    "`name` must be the name of the path",
    # Fields that a request gives cannot be kept as hidden ones; a new schedule has nothing to keep.
    "`hidden` must (not name|be left out)",
    "`topic` must stay",
    # Reserved names, names that differ only in case, and the maximum sum of their lengths.
    "`.*headers` must",
    "`error` must have at most 4096 bytes",
    # The server refuses 35.0 as a whole number, although the schema accepts it.
    r"got floating point `\d+\.0`",
    r"`(expires_at|due_at|created_at|reserved_until|died_at|scheduled_at|anchor|start|end)` must be a time .* got \d{13}$",
]


@schemathesis.check
def a_request_that_fits_its_schema_is_refused_only_by_a_rule(ctx, response, case):
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if is_valid and response.status_code == 422:
        detail = response.json()["detail"]
        assert any(re.search(rule, detail) for rule in RULES), detail
