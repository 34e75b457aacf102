//! Rules on the contents of a job: it was put, and it has the body of its put until a release
//! changes the body.

use crate::faults::judge::{
    Object,
    job::{Delivered, Job, is_before, text},
};
use crate::faults::prelude::*;

/// Requires that deliveries and stored records have the contents of a put or of a later release.
pub fn contents(job: &Job, object: &mut impl Object) {
    let first = job.puts.iter().map(|put| put.start).min();
    // If a refused put has created a job, its answer shows which promise was broken.
    let refused: Vec<_> = job.refused_puts.iter().map(|put| (put.end, &put.outcome)).collect();
    for &given in &job.deliveries {
        let Delivered { pop, job: delivery } = given;
        if first.is_none_or(|first| pop.end < first) {
            let at = pop.end;
            let what = format!("delivered at {at:?}, first put {first:?}, refused {refused:?}");
            object(Rule::NeverPut, what);
        } else if !may_have(job, &delivery.body, Some(given)) {
            object(Rule::OtherBody, format!("delivered with {:?}", delivery.body));
        }
    }
    let Some(stored) = job.stored else { return };
    if first.is_none() {
        object(Rule::NeverPut, format!("refused {refused:?}, stored: {stored:?}"));
    } else if let Some(other) = stored.bodies.iter().find(|body| !may_have(job, text(body), None)) {
        object(Rule::OtherBody, format!("stored with {other:?}"));
    }
}

/// Returns whether the job may have had this body when it was delivered, or at the end if `given`
/// is `None`.
fn may_have(job: &Job, body: &str, given: Option<Delivered>) -> bool {
    let changes = || job.possibly_applied().filter(|act| body_of(act).is_some());
    let is_earlier = |change: &Call| match given {
        _ if !change.done() => false,
        Some(given) => {
            let held = job.held_by(change);
            is_before(change, given.pop) || held.is_some_and(|held| job.is_after(given, held))
        }
        None => true,
    };
    let certain: Vec<&Call> = changes().filter(|change| is_earlier(change)).collect();
    if certain.is_empty() && job.puts.iter().any(|put| body_of(put) == Some(body)) {
        return true;
    }
    let begun = |change: &Call| given.is_none_or(|given| change.start < given.pop.end);
    let mut sources = changes().filter(|change| body_of(change) == Some(body) && begun(change));
    sources.any(|source| !certain.iter().any(|change| replaces(job, change, source)))
}

/// Returns whether a release with a body certainly came after another one.
fn replaces(job: &Job, later: &Call, earlier: &Call) -> bool {
    let by_holds = || Some(job.is_after(job.held_by(later)?, job.held_by(earlier)?));
    is_before(earlier, later) || by_holds().unwrap_or(false)
}

/// Returns the body that a put or a release gives to its job.
fn body_of(call: &Call) -> Option<&str> {
    match &call.ask {
        Ask::Put { body, .. } => Some(body),
        Ask::Release { body, .. } => body.as_deref(),
        _ => None,
    }
}
