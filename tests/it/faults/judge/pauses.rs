//! Rule on pauses: a pop must return no jobs if it began after the same server had acknowledged a
//! pause, and ended before a resume was sent to any server. Other servers obey once they know the
//! pause.

use crate::faults::judge::{LATE, Object};
use crate::faults::prelude::*;

/// A certain pause, from its acknowledgement until a resume may have begun.
struct Pause {
    topic: &'static str,
    server: usize,
    from: Time,
    until: Time,
}

pub fn pauses(calls: &[Call], object: &mut impl Object) {
    let pauses = certain(calls);
    for call in calls.iter().filter(|call| !call.deliveries().is_empty()) {
        let Ask::Pop { topic, server } = call.ask else { continue };
        let behind = pauses.partition_point(|pause| pause.from <= call.start);
        // Pauses of other topics or servers may be between the two.
        let last = pauses[..behind]
            .iter()
            .rev()
            .find(|pause| (pause.topic, pause.server) == (topic, server));
        if let Some(pause) = last.filter(|pause| call.end <= pause.until) {
            let ids: Vec<_> = call.deliveries().iter().map(|job| &*job.id).collect();
            let (start, from) = (call.start, pause.from);
            object(
                Rule::Paused,
                format!("{topic} is paused since {from:?}, and gives {ids:?} at {start:?}"),
            );
        }
    }
}

/// Returns certain pauses in the order of their begin. Leaves out pauses that a resume without an
/// answer may have ended.
fn certain(calls: &[Call]) -> Vec<Pause> {
    let resumes = |name: &str| {
        let is = |call: &&Call| matches!(call.ask, Ask::Resume { topic } if topic == name);
        calls.iter().filter(is).filter(|call| call.may_be_done()).collect::<Vec<_>>()
    };
    let mut known: Vec<(&str, Vec<&Call>)> = Vec::new();
    let mut pauses = Vec::new();
    for call in calls.iter().filter(|call| call.done()) {
        let Ask::Pause { topic, server } = call.ask else { continue };
        if !known.iter().any(|(name, _)| *name == topic) {
            known.push((topic, resumes(topic)));
        }
        let (_, resumes) = known.iter().find(|(name, _)| *name == topic).expect("just added");
        let may_come_late = |resume: &&&Call| {
            !resume.done() && resume.start < call.end && call.start < resume.end + LATE
        };
        if resumes.iter().any(|resume| may_come_late(&resume)) {
            continue;
        }
        // A resume that was in progress when the pause began may have taken effect after it.
        let after = resumes.iter().filter(|resume| resume.end > call.start);
        let until = after.map(|resume| resume.start).min().unwrap_or(Time::MAX);
        if until > call.end {
            pauses.push(Pause { topic, server, from: call.end, until });
        }
    }
    pauses.sort_by_key(|pause| pause.from);
    pauses
}
