//! Routes of schedules.

use axum::http::Method;
use serde_json::{Value, json};

use crate::{
    access::Scope,
    http::{
        openapi::{Handled, Operation, Schemas, on},
        problem::Code,
        routes::schedules::{self, MAX_SCHEDULES},
        wire::{
            PreviewResponse, PreviewSchedule, PutSchedule, ScheduleResponse, SchedulesPage,
            TransitionResponse,
        },
    },
    job::{MAX_SCHEDULE_NAME, ScheduleName, Topic},
};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let all = [list(schemas), get(schemas), put(schemas), delete(schemas)];
    let acts = [pause(schemas), resume(schemas), run(schemas), preview(schemas)];
    all.into_iter().chain(acts).map(|operation| operation.tag("Schedules")).collect()
}

const SCHEDULE: &str = "/schedules/{name}";
const READERS: &[Scope] = &[Scope::Read, Scope::Manage];

fn declare(
    schemas: &mut Schemas,
    handled: Handled,
    path: &'static str,
    (name, summary): (&str, &str),
    scopes: &'static [Scope],
) -> Operation {
    let schema = schemas.request::<ScheduleName>();
    Operation::new(handled, path, name, summary)
        .needs(scopes)
        .in_path("name", &schema, "The schedule's name.", "daily-report")
        .refuses(&[Code::ScheduleNotFound])
}

fn example(paused: bool) -> Value {
    json!({
        "name": "daily-report", "topic": "reports", "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin",
        "jitter": 0, "overlap": "skip", "missed": "once", "body": { "report": "sales" }, "ttr": 600,
        "description": "at 09:00, on Monday to Friday, Europe/Berlin", "set_by": "shop", "paused": paused,
        "next": ["2030-01-31T08:00:00.000Z", "2030-02-01T08:00:00.000Z"],
        "last": { "id": "daily-report:1895904000000", "due_at": "2030-01-30T08:00:00.000Z", "state": "finished" },
    })
}

fn list(schemas: &mut Schemas) -> Operation {
    let prefix = json!({
        "type": "string", "maxLength": MAX_SCHEDULE_NAME,
        "pattern": format!("^[A-Za-z0-9._-]{{0,{MAX_SCHEDULE_NAME}}}$"), "not": { "enum": [".", ".."] },
    });
    let topic = schemas.request::<Topic>();
    let answer = json!({ "schedules": [example(false)], "cursor": null });
    let handled = on(Method::GET, schedules::list);
    Operation::new(handled, "/schedules", "list_schedules", "List schedules")
        .text("By name. The list has only schedules of topics that the token may read or manage. A page examines at most 10,000 schedules, so it may have fewer than `limit` and a cursor.")
        .needs(READERS)
        .in_query("prefix", false, &prefix, "Only schedules whose names begin with this text.")
        .in_query("topic", false, &topic, "Only schedules of this topic.")
        .with_limit(100, MAX_SCHEDULES, "Maximum number of schedules.")
        .with_cursor("The `cursor` of the previous page.")
        .gives(200, "A page of schedules.", &schemas.answer::<SchedulesPage>(), &answer)
}

fn get(schemas: &mut Schemas) -> Operation {
    let names = ("get_schedule", "Get a schedule");
    declare(schemas, on(Method::GET, schedules::get), SCHEDULE, names, READERS)
        .text("The schedule as it is set, its next instants, and its last job.")
        .refuses(&[Code::MethodNotAllowed])
        .gives(200, "The schedule.", &schemas.answer::<ScheduleResponse>(), &example(false))
}

fn put(schemas: &mut Schemas) -> Operation {
    let request = json!({
        "topic": "reports", "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "overlap": "skip",
        "body": { "report": "sales" }, "ttr": "10m",
    });
    let answer = schemas.answer::<ScheduleResponse>();
    let schema = schemas.request::<ScheduleName>();
    let handled = on(Method::PUT, schedules::put);
    Operation::new(handled, SCHEDULE, "set_schedule", "Set a schedule")
        .needs(&[Scope::Manage])
        .in_path("name", &schema, "The schedule's name.", "daily-report")
        .text(
            "Creates or replaces a schedule: at each instant, a job with the id `<name>:<instant in Unix ms>` is put. \
             Needs `put` for the topic too. A new schedule, or one whose timing changes, begins with the first instant \
             after now; otherwise its next instant stays. A paused schedule stays paused. A field that is left out gets \
             its default. The request may contain the whole answer of a `GET`.",
        )
        .takes(&schemas.request::<PutSchedule>(), &request)
        .gives(200, "The schedule was replaced.", &answer, &example(false))
        .gives(201, "The schedule was created.", &answer, &example(false))
        .refuses(&[Code::ScheduleExists, Code::TooManySchedules, Code::StoreFull])
        .refuses(&[Code::MethodNotAllowed])
}

fn delete(schemas: &mut Schemas) -> Operation {
    let names = ("delete_schedule", "Delete a schedule");
    declare(schemas, on(Method::DELETE, schedules::delete), SCHEDULE, names, &[Scope::Manage])
        .text("The jobs that it has put stay. Needs `put` for its topic too.")
        .refuses(&[Code::MethodNotAllowed])
        .may_take_nothing()
        .done(204, "The schedule was deleted.")
}

fn pause(schemas: &mut Schemas) -> Operation {
    let (path, names) = ("/schedules/{name}/pause", ("pause_schedule", "Pause a schedule"));
    declare(schemas, on(Method::POST, schedules::pause), path, names, &[Scope::Manage])
        .text("Its instants are skipped until it is resumed. Needs `put` for its topic too.")
        .may_take_nothing()
        .gives(200, "It is paused.", &schemas.answer::<ScheduleResponse>(), &example(true))
        .refuses(&[Code::StoreFull])
}

fn resume(schemas: &mut Schemas) -> Operation {
    let (path, names) = ("/schedules/{name}/resume", ("resume_schedule", "Resume a schedule"));
    declare(schemas, on(Method::POST, schedules::resume), path, names, &[Scope::Manage])
        .text("It continues with the first instant after now. Needs `put` for its topic too.")
        .may_take_nothing()
        .gives(200, "It was resumed.", &schemas.answer::<ScheduleResponse>(), &example(false))
        .refuses(&[Code::StoreFull])
}

fn run(schemas: &mut Schemas) -> Operation {
    let (path, names) = ("/schedules/{name}/run", ("run_schedule", "Run a schedule now"));
    let answer = json!({
        "id": "daily-report:1895991234567", "topic": "reports", "state": "ready",
        "due_at": "2030-01-31T08:13:54.567Z",
    });
    declare(schemas, on(Method::POST, schedules::run), path, names, &[Scope::Manage])
        .text("Puts a job with the current time as its instant, also while the schedule is paused. The next instants stay. Needs `put` for its topic too.")
        .may_take_nothing()
        .gives(201, "The job was put.", &schemas.answer::<TransitionResponse>(), &answer)
        .with_header("Location", "The path of the job.", "/jobs/daily-report:1895991234567")
        .refuses(&[Code::TopicFull, Code::StoreFull, Code::StoreUnsafe, Code::Overloaded])
}

fn preview(schemas: &mut Schemas) -> Operation {
    let request = json!({ "cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin" });
    let answer = json!({
        "next": ["2030-01-31T08:00:00.000Z", "2030-02-01T08:00:00.000Z"],
        "description": "at 09:00, on Monday to Friday, Europe/Berlin",
    });
    let handled = on(Method::POST, schedules::preview);
    Operation::new(handled, "/schedules/preview", "preview_schedule", "Preview a schedule")
        .text("Returns the first instants of a timing and describes it; nothing is stored.")
        .needs_any_token()
        .takes(&schemas.request::<PreviewSchedule>(), &request)
        .gives(200, "The instants.", &schemas.answer::<PreviewResponse>(), &answer)
}
