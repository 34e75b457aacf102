use proptest::prelude::*;

use super::{super::Arrival, *};
use crate::job::{JobId, Millis, Policy, Priority};

/// Changes one of a few jobs of two topics.
fn step(index: &mut Index, serial: u64, (job, what, at): (u64, u8, u64)) {
    let id: JobId = format!("job-{job}").parse().expect("an id");
    let state = State::ALL[usize::from(what) % 4];
    match (index.find(&id), what / 4) {
        (Some(slot), 0) => index.remove(slot),
        (Some(slot), 1) if index.entry(slot).state != State::Finished => {
            index.place(slot, state, UnixMillis::new(at));
        }
        (Some(slot), 3) if index.entry(slot).state != State::Finished => {
            let topic = format!("topic-{}", at % 3).parse().expect("a topic");
            index.change_topic(slot, topic, &policy(at), UnixMillis::new(at));
        }
        (Some(slot), 1 | 3) => {
            index.finish(slot, UnixMillis::new(at), Size::from_bytes(at as usize))
        }
        (Some(slot), _) => {
            let attempt = Attempt {
                number: u32::from(what),
                ..Attempt::none(UnixMillis::new(at), Millis::new(1))
            };
            index.entry_mut(slot).attempt = Some(Box::new(attempt));
            if index.entry(slot).state != State::Finished {
                index.set_policy(slot, policy(at + 1));
            }
            index.resize(slot, Size::from_bytes(at as usize));
        }
        (None, _) => index.insert(Arrival {
            id,
            topic: format!("topic-{}", job % 2).parse().expect("a topic"),
            serial,
            state,
            at: UnixMillis::new(at),
            policy: Arc::new(policy(at)),
            attempt: None,
            size: Size::from_bytes(usize::from(what)),
        }),
    }
}

/// Returns a policy with a priority, and for some numbers with an expiry.
fn policy(number: u64) -> Policy {
    let expires_after = number.is_multiple_of(3).then_some(Millis::new(number + 1));
    Policy {
        ttr: Millis::new(number),
        priority: Priority::new((number % 10) as u8).expect("a digit"),
        expires_after,
        expires_at: expires_after.map(|after| UnixMillis::new(number).after(after)),
        ..Policy::STANDARD
    }
}

/// Returns a text with everything that is visible in the index.
fn seen(index: &Index) -> String {
    let mut all = format!("{:?} {:?}", index.next_deadline(), index.entries.len());
    all += &format!("\n{:?}", index.expiring.iter().collect::<Vec<_>>());
    for topic in index.topics_from(None, None) {
        all += &format!("\n{topic} {}", index.bytes(topic));
        for state in State::ALL {
            for key in index.after(topic, state, None) {
                let (slot, at) = (key.slot, key.at());
                let entry = index.entry(slot);
                assert_eq!(entry.at, at);
                assert_eq!(index.find(&index.id(slot)), Some(slot));
                let expires_at = index.expires_at(slot);
                all += &format!("\n{topic} {state:?} {at:?} {expires_at:?} {entry:?}");
            }
        }
    }
    all
}

proptest! {
    #[test]
    fn what_is_taken_back_never_was(
        kept in prop::collection::vec((0..8_u64, 0..16_u8, 0..50_u64), 0..30),
        refused in prop::collection::vec((0..8_u64, 0..16_u8, 0..50_u64), 0..30),
        also_settled: bool,
    ) {
        let mut index = Index::default();
        for (serial, change) in kept.into_iter().enumerate() {
            step(&mut index, serial as u64, change);
        }
        // Earlier changes of the same batch may stay.
        if also_settled {
            index.keep_changes();
        }
        let (before, mark) = (seen(&index), index.mark());
        for (serial, change) in refused.into_iter().enumerate() {
            step(&mut index, 100 + serial as u64, change);
        }
        index.roll_back(mark);
        prop_assert_eq!(seen(&index), before);
        index.keep_changes();
        let jobs: usize = index.topics.iter().flat_map(|(_, topic)| &topic.sets).map(|s| s.len()).sum();
        prop_assert_eq!(jobs, index.entries.len());
        prop_assert!(index.topics.iter().all(|(_, topic)| !topic.is_empty()));
        prop_assert_eq!(index.topics.len(), index.by_name.len());
    }
}
