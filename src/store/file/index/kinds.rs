//! Topics and policies that jobs share: each combination is in memory once, however the jobs that
//! have it follow each other.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use hashbrown::HashTable;

use super::Kind;
use crate::job::{Backoff, Policy};

/// Number of combinations from which on the unused ones are removed.
const MIN_SWEEP: usize = 16;

#[derive(Debug, Default)]
pub struct Kinds {
    all: HashTable<Arc<Kind>>,
    /// Number of combinations after the last removal of the unused ones.
    swept: usize,
}

impl Kinds {
    pub fn shared(&mut self, topic: u32, policy: &Policy) -> Arc<Kind> {
        let is_same = |kind: &Arc<Kind>| kind.topic == topic && kind.policy == *policy;
        if let Some(known) = self.all.find(hash(topic, policy), is_same) {
            return Arc::clone(known);
        }
        if self.all.len() >= MIN_SWEEP + 2 * self.swept {
            self.all.retain(|kind| Arc::strong_count(kind) > 1);
            self.swept = self.all.len();
        }
        let kind = Arc::new(Kind { topic, policy: policy.clone() });
        let hash_of = |kind: &Arc<Kind>| hash(kind.topic, &kind.policy);
        self.all.insert_unique(hash(topic, policy), Arc::clone(&kind), hash_of);
        kind
    }
}

/// Hashes the fields in which policies mostly differ. The others are only compared.
fn hash(topic: u32, policy: &Policy) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Policy { ttr, max_attempts, dead_retention, priority, expires_after, .. } = policy;
    (topic, ttr.get(), max_attempts, dead_retention.get(), priority.get()).hash(&mut hasher);
    expires_after.map(|after| after.get()).hash(&mut hasher);
    match &policy.backoff {
        None => {}
        Some(Backoff::List(waits)) => waits.iter().for_each(|wait| wait.get().hash(&mut hasher)),
        Some(Backoff::Exponential { initial, factor, max, jitter }) => {
            (initial.get(), factor.to_bits(), max.get(), jitter.to_bits()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Millis;

    fn policy(ttr: u64) -> Policy {
        Policy { ttr: Millis::new(ttr), ..Policy::STANDARD }
    }

    #[test]
    fn alternating_policies_are_shared() {
        let mut kinds = Kinds::default();
        let first: Vec<_> = (0..10).map(|n| kinds.shared(n % 2, &policy(n.into()))).collect();
        for _ in 0..3 {
            for (n, kind) in (0..10).zip(&first) {
                assert!(Arc::ptr_eq(kind, &kinds.shared(n % 2, &policy(n.into()))));
            }
        }
        assert_eq!(kinds.all.len(), 10);
        assert!(!Arc::ptr_eq(&first[0], &kinds.shared(1, &policy(0))));
    }

    #[test]
    fn unused_policies_are_removed() {
        let mut kinds = Kinds::default();
        let used: Vec<_> = (0..100).map(|n| kinds.shared(0, &policy(n))).collect();
        (100..10_000).for_each(|n| drop(kinds.shared(0, &policy(n))));
        assert!(kinds.all.len() < 300, "{}", kinds.all.len());
        assert!(Arc::ptr_eq(&used[7], &kinds.shared(0, &policy(7))));
    }
}
