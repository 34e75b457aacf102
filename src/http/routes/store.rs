//! Route by which an operator accepts a loss of jobs.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::{
    app::App,
    client::identity::Identity,
    edge::log::AuditDetail,
    extract::{content::Content, input::NoQuery, parse::no_body},
    problem::Problem,
    wire::json::Json,
};

/// Answer to an accepted loss of jobs.
#[derive(Serialize, JsonSchema)]
pub struct AcceptedLoss {
    /// Number of buckets that continue with their remaining jobs; 0 if already accepted.
    buckets: u64,
}

pub async fn accept_loss(
    State(app): State<App>,
    identity: Identity,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<AcceptedLoss>), Problem> {
    identity.topics()?;
    no_body(&content)?;
    let buckets = app.queue.accept_loss().await?;
    Ok((
        AuditDetail(format!("loss of jobs accepted in {buckets} buckets")),
        Json(AcceptedLoss { buckets }),
    ))
}
