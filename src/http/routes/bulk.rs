//! Routes that kick or purge many jobs of a topic.

use axum::{extract::State, http::Uri};

use crate::{
    http::{
        app::App,
        client::identity::Identity,
        edge::log::AuditDetail,
        extract::{
            content::Content, filter::described, input::PathTopic, parse::no_body, query::Query,
        },
        problem::Problem,
        wire::{Kicked, Purged, json::Json},
    },
    job::State as JobState,
    queue::Bulk,
};

/// Maximum number of jobs of one kick.
pub const MAX_KICK: u64 = 1_000_000;

pub async fn kick(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    uri: Uri,
    Content(content): Content,
) -> Result<(AuditDetail, Json<Kicked>), Problem> {
    identity.may(&topic)?;
    let mut query = Query::new(&uri);
    let state = query.state()?.unwrap_or(JobState::Dead);
    if !matches!(state, JobState::Dead | JobState::Delayed) {
        let detail = format!("must be dead or delayed, got {:?}", state.name());
        return Err(Problem::field("state", detail));
    }
    let limit = query.limit(1000, MAX_KICK)?;
    let filter = query.filter(Some(state))?;
    let is_dry_run = query.flag("dry_run")?;
    query.reject_unknown()?;
    no_body(&content)?;
    let bulk = Bulk { topic, filter, is_dry_run };
    let done = app.queue.kick_jobs(&bulk, state, limit).await?;
    let detail = detail(done.jobs, "kicked", &bulk, Some(state));
    Ok((detail, Json(Kicked { kicked: done.jobs, more: done.more, dry_run: is_dry_run })))
}

pub async fn purge(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    uri: Uri,
    Content(content): Content,
) -> Result<(AuditDetail, Json<Purged>), Problem> {
    identity.may(&topic)?;
    let mut query = Query::new(&uri);
    let state = query.state()?;
    let filter = query.filter(state)?;
    let is_dry_run = query.flag("dry_run")?;
    query.reject_unknown()?;
    no_body(&content)?;
    let bulk = Bulk { topic, filter, is_dry_run };
    let done = app.queue.purge_jobs(&bulk, state).await?;
    let detail = detail(done.jobs, "purged", &bulk, state);
    Ok((detail, Json(Purged { purged: done.jobs, more: done.more, dry_run: is_dry_run })))
}

fn detail(jobs: u64, verb: &str, bulk: &Bulk, state: Option<JobState>) -> AuditDetail {
    let counted = if bulk.is_dry_run { " (dry run)" } else { "" };
    let state = state.map_or_else(String::new, |state| format!(" state={}", state.name()));
    AuditDetail(format!("{jobs} jobs {verb}{counted}{state}{}", described(&bulk.filter)))
}
