//! Pushes and schedules that a token has set.

use crate::{
    access::TokenName,
    http::{
        app::App,
        problem::{Code, Problem},
    },
    job::{Push, PushPause, ScheduleName, Topic},
    schedules::{Record, ScheduleError},
    store::SchedulePage,
};

/// Maximum number of names of pushes, and of schedules, that a refusal lists.
const MAX_LISTED: usize = 20;
/// Number of schedules that are read at once.
const PAGE: usize = 1000;

/// Pushes and schedules that a token has set, and that are not paused.
pub struct TokenUses {
    pushes: Vec<Topic>,
    schedules: Vec<ScheduleName>,
}

impl TokenUses {
    /// Finds what a token has set. Paused pushes and schedules do nothing until a caller with a
    /// token of its own resumes them, so they do not count.
    pub async fn find(app: &App, token: &TokenName) -> Result<Self, Problem> {
        let is_own = |push: &Push| is_used(push.set_by.as_deref(), token) && push.paused.is_none();
        let pushes = app.queue.pushes().into_iter().filter(|(_, push)| is_own(push));
        let mut pushes: Vec<Topic> = pushes.map(|(topic, _)| topic).collect();
        pushes.sort();
        let (mut schedules, mut after) = (Vec::new(), None);
        loop {
            let page = SchedulePage { prefix: String::new(), after, limit: PAGE };
            let (page, more_after) = app.schedules.list(page).await?;
            let is_own =
                |record: &Record| is_used(record.set_by.as_deref(), token) && !record.paused;
            let own = page.into_iter().filter(|(_, record)| record.as_ref().is_some_and(is_own));
            schedules.extend(own.map(|(name, _)| name));
            after = more_after;
            if after.is_none() {
                return Ok(Self { pushes, schedules });
            }
        }
    }

    /// Refuses to revoke the token if it has set something.
    ///
    /// # Errors
    /// 409 `token_in_use`.
    pub fn refuse(&self, token: &TokenName) -> Result<(), Problem> {
        let uses = [listed("push of the topic", &self.pushes), listed("schedule", &self.schedules)];
        let uses: Vec<String> = uses.into_iter().flatten().collect();
        if uses.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "the token {token} has set {}, which would go on; add `?then=pause` to pause them, or `?then=keep`",
            uses.join(", ")
        );
        Err(Problem::new(Code::TokenInUse, detail))
    }

    /// Pauses what the token has set, unless another token has set it meanwhile.
    pub async fn pause(&self, app: &App, token: &TokenName) -> Result<(), Problem> {
        for topic in &self.pushes {
            let change = |push: Option<&Push>| {
                let push = push?;
                let is_own = is_used(push.set_by.as_deref(), token);
                let paused = push.paused.or(Some(PushPause::Revoked).filter(|_| is_own));
                Some(Push { paused, ..push.clone() })
            };
            app.queue.change_push::<Problem>(topic, |push| Ok(change(push))).await?;
        }
        for name in &self.schedules {
            let change = app.schedules.change(name, |record, _| {
                let record = record?;
                Ok::<_, ScheduleError>(record.map(|record| {
                    match is_used(record.set_by.as_deref(), token) {
                        true => Record { paused: true, next: None, ..record },
                        false => record,
                    }
                }))
            });
            match change.await {
                Ok(_) | Err(ScheduleError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn is_used(set_by: Option<&str>, token: &TokenName) -> bool {
    set_by.is_some_and(|name| *name == *token.to_string())
}

/// Returns the first names with what they name; `None` if there are none.
fn listed<T: ToString>(kind: &str, names: &[T]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("the {kind} {}{more}", shown.join(", ")))
}
