//! Routes of whole topics.

use axum::http::Method;
use serde_json::{Value, json};

use super::examples::{listed_job, since_start, topic};
use crate::{
    access::Scope,
    http::{
        openapi::{Operation, Schemas, on},
        problem::Code,
        routes::{
            bulk::{self, MAX_KICK},
            overview,
            topics::{self, MAX_DUE_STEPS, MAX_ERRORS, MAX_JOBS, MAX_TOPICS},
        },
        wire::{
            DueCounts, JobsPage, Kicked, PauseTopic, Paused, Purged, PutTopic, TopicResponse,
            TopicsPage,
        },
    },
    job::MAX_NAME,
    queue::{ErrorGroups, MAX_EXAMINED_ERRORS},
};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    [
        list(schemas),
        get(schemas),
        put(schemas),
        jobs(schemas),
        errors(schemas),
        due(schemas),
        pause(schemas),
        resume(schemas),
        kick(schemas),
        purge(schemas),
        overview(schemas),
    ]
    .map(|operation| operation.tag("Topics"))
    .into()
}

fn in_full(schemas: &mut Schemas) -> Value {
    let text = "A topic with its defaults and counters.";
    schemas.complete::<TopicResponse>("TopicInFull", text)
}

fn example_in_full() -> Value {
    let mut example = topic();
    example["defaults"] = json!({
        "ttr": 120, "max_attempts": null, "backoff": [60, 300], "dead_retention": 2_592_000,
        "finished_retention": 86_400, "priority": null, "expires_after": 172_800, "dead_to": null,
    });
    example["push"] = false.into();
    example["since_start"] = since_start();
    example
}

fn list(schemas: &mut Schemas) -> Operation {
    let prefix = json!({
        "type": "string", "maxLength": MAX_NAME, "pattern": format!("^[A-Za-z0-9._-]{{0,{MAX_NAME}}}$"),
        "not": { "enum": [".", ".."] },
    });
    let answer = json!({ "topics": [topic()], "cursor": null });
    Operation::new(on(Method::GET, topics::list), "/topics", "list_topics", "List topics")
        .text("Topics that have jobs, defaults or a push, or are paused, by name. The list has only topics that the token may read.")
        .needs(&[Scope::Read])
        .in_query("prefix", false, &prefix, "Only topics whose names begin with this text.")
        .with_limit(100, MAX_TOPICS, "Maximum number of topics.")
        .with_cursor("The `cursor` of the previous page.")
        .gives(200, "A page of topics.", &schemas.answer::<TopicsPage>(), &answer)
}

fn get(schemas: &mut Schemas) -> Operation {
    Operation::new(on(Method::GET, topics::get), "/topics/{topic}", "get_topic", "Get a topic")
        .text("Counts are exact. A topic without jobs has zeros; there is no 404.")
        .needs(&[Scope::Read])
        .with_topic(schemas)
        .gives(200, "The topic.", &in_full(schemas), &example_in_full())
}

fn put(schemas: &mut Schemas) -> Operation {
    let defaults = json!({
        "ttr": "2m", "backoff": ["1m", "5m"], "dead_retention": "30d", "finished_retention": "1d",
        "expires_after": "2d",
    });
    Operation::new(on(Method::PUT, topics::put), "/topics/{topic}", "set_defaults", "Set the defaults of a topic")
        .text(
            "Replaces the defaults for jobs that are put from now on. A field that is left out has no default, so \
             `{}` removes all defaults. The request may contain the whole answer of a `GET`.",
        )
        .needs(&[Scope::Manage])
        .with_topic(schemas)
        .takes(&schemas.request::<PutTopic>(), &defaults)
        .gives(200, "The topic as it is now.", &in_full(schemas), &example_in_full())
}

fn jobs(schemas: &mut Schemas) -> Operation {
    let answer = json!({ "jobs": [listed_job("delayed")], "cursor": null });
    Operation::new(on(Method::GET, topics::jobs), "/topics/{topic}/jobs", "list_jobs", "List the jobs of a topic")
        .text(
            "Pages through the jobs of one state, within a bucket by deadline; ready jobs by priority, then by due \
             time. A page may have fewer than `limit`, even none, and still have a `cursor`: it compares at most \
             10,000 jobs with a filter. Jobs that stay where they are are neither skipped nor repeated.",
        )
        .needs(&[Scope::Read])
        .with_topic(schemas)
        .with_state(schemas, true, "Which jobs.")
        .such_as("delayed")
        .with_filters()
        .with_limit(20, MAX_JOBS, "Maximum number of jobs.")
        .with_cursor("The `cursor` of the previous page, with the same `state` and filters.")
        .gives(200, "A page of jobs.", &schemas.answer::<JobsPage>(), &answer)
        .refuses(&[Code::Overloaded])
}

fn errors(schemas: &mut Schemas) -> Operation {
    let text = format!(
        "Counts the dead jobs of a topic by their error, the most frequent first. Errors that differ only in \
         numbers, ids, addresses or quoted values count as one. A request examines at most {MAX_EXAMINED_ERRORS} jobs, for \
         about 10 seconds."
    );
    let answer = json!({
        "errors": [{ "error": "no such shop", "count": 1, "example": "call:1" }], "examined": 1, "more": false,
    });
    Operation::new(
        on(Method::GET, topics::errors),
        "/topics/{topic}/errors",
        "count_errors",
        "Count dead jobs by error",
    )
    .text(&text)
    .needs(&[Scope::Read])
    .with_topic(schemas)
    .with_limit(20, MAX_ERRORS, "Maximum number of errors.")
    .gives(200, "The errors.", &schemas.answer::<ErrorGroups>(), &answer)
    .refuses(&[Code::Overloaded])
}

fn due(schemas: &mut Schemas) -> Operation {
    let step = format!(
        "Length of each step, longer than 0; at most {MAX_DUE_STEPS} steps. Default: a sixtieth of the time from \
         `from` to `until`. The last step ends at `until` or later."
    );
    let answer = json!({ "from": "2030-01-31T12:00:00.000Z", "step": 1200, "counts": [0, 0, 0] });
    Operation::new(
        on(Method::GET, topics::due),
        "/topics/{topic}/due",
        "count_due",
        "Count jobs by due time",
    )
    .text("Counts the delayed jobs of a topic that become due in each step of time.")
    .needs(&[Scope::Read])
    .with_topic(schemas)
    .with_time("from", "When the first step begins. Default: now.")
    .such_as("2030-01-31T12:00:00Z")
    .with_time(
        "until",
        "When the last step ends, later than `from`. Default: an hour after `from`.",
    )
    .such_as("2030-01-31T13:00:00Z")
    .with_duration("step", &step)
    .such_as("20m")
    .gives(200, "A number for each step.", &schemas.answer::<DueCounts>(), &answer)
}

fn pause(schemas: &mut Schemas) -> Operation {
    let answer = json!({
        "topic": "callbacks", "paused": true, "paused_until": "2030-01-31T12:10:00.000Z",
    });
    Operation::new(on(Method::POST, topics::pause), "/topics/{topic}/pause", "pause_topic", "Pause a topic")
        .text(
            "A paused topic accepts jobs and delivers none, on every server, even after a restart. Consumers that \
             hold its jobs may finish them. A new pause of a paused topic replaces the earlier pause.",
        )
        .needs(&[Scope::Manage])
        .with_topic(schemas)
        .may_take(&schemas.request::<PauseTopic>(), &json!({ "for": "10m" }))
        .gives(200, "The topic is paused.", &schemas.answer::<Paused>(), &answer)
}

fn resume(schemas: &mut Schemas) -> Operation {
    let answer = json!({ "topic": "callbacks", "paused": false, "paused_until": null });
    Operation::new(
        on(Method::POST, topics::resume),
        "/topics/{topic}/resume",
        "resume_topic",
        "Resume a topic",
    )
    .text("The topic delivers jobs again.")
    .needs(&[Scope::Manage])
    .with_topic(schemas)
    .may_take_nothing()
    .gives(200, "The topic is not paused.", &schemas.answer::<Paused>(), &answer)
}

fn kick(schemas: &mut Schemas) -> Operation {
    let states = json!({ "type": "string", "enum": ["dead", "delayed"], "default": "dead" });
    let answer = json!({ "kicked": 1, "more": false });
    Operation::new(on(Method::POST, bulk::kick), "/topics/{topic}/kick", "kick_topic", "Kick the jobs of a topic")
        .text(
            "Makes dead or delayed jobs ready now. In each bucket, dead jobs are ordered by the end of their \
             retention, and delayed jobs by due time. The attempts of dead jobs start from zero, and their \
             `expires_after` counts from now. With filters, a request runs for at most 10 seconds; repeat it while \
             `more` is true.",
        )
        .needs(&[Scope::Manage])
        .with_topic(schemas)
        .in_query("state", false, &states, "Which jobs.")
        .with_filters()
        .with_dry_run()
        .with_limit(1000, MAX_KICK, "Maximum number of jobs.")
        .may_take_nothing()
        .gives(200, "The number of jobs that are ready now.", &schemas.answer::<Kicked>(), &answer)
}

fn purge(schemas: &mut Schemas) -> Operation {
    let answer = json!({ "purged": 1, "more": false });
    Operation::new(on(Method::DELETE, bulk::purge), "/topics/{topic}/jobs", "purge_topic", "Purge a topic")
        .text(
            "Deletes the jobs of a topic in small steps, so that other calls are served meanwhile. With filters, a \
             request runs for at most 10 seconds; repeat it while `more` is true.",
        )
        .needs(&[Scope::Manage])
        .with_topic(schemas)
        .with_state(schemas, false, "Only jobs in this state. Default: all.")
        .with_filters()
        .with_dry_run()
        .may_take_nothing()
        .gives(200, "The number of deleted jobs.", &schemas.answer::<Purged>(), &answer)
}

fn overview(schemas: &mut Schemas) -> Operation {
    let answer = json!({
        "as_of": "2030-01-31T12:00:00.000Z",
        "jobs": { "delayed": 1, "ready": 0, "reserved": 0, "dead": 0, "finished": 0 },
        "due_not_delivered": 0, "oldest_ready_age": null, "topics": 1, "paused": 0,
        "oldest_ready": [], "most_delayed": [topic()], "most_dead": [],
        "lateness": [{
            "at": "2030-01-31T12:00:00.000Z", "popped": 3, "p50": 0.001, "p99": 0.003, "max": 0.003,
        }],
        "pushes": [{
            "target": "https://shop.example:443", "state": "closed", "topics": ["callbacks"],
            "rates": { "delivered": 2.5, "failed": 0.0 }, "mean_seconds": 0.04,
        }],
        "since_start": since_start(),
        "last_errors": [{
            "at": "2030-01-31T12:00:00.000Z", "topic": "callbacks", "id": "call:2", "state": "dead",
            "error": "no such shop", "times": 1,
        }],
        "store": { "status": "ok", "reasons": [] },
        "servers": 0,
        "version": env!("CARGO_PKG_VERSION"),
    });
    Operation::new(
        on(Method::GET, overview::overview),
        "/overview",
        "get_overview",
        "Get the overview",
    )
    .text("A summary of all topics and of this server, as the dashboard shows it. The token needs `read` on all topics (`*`).")
    .needs(&[Scope::Read])
    .gives(200, "The summary.", &schemas.answer::<overview::Overview>(), &answer)
}
