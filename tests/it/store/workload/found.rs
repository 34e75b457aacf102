//! Contents of a store, read through its methods.

use crate::store::prelude::*;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    pub jobs: BTreeMap<JobId, Job>,
    /// Damaged jobs with their reported reasons.
    pub damaged: BTreeMap<JobId, String>,
    pub topics: Vec<(Topic, Counts)>,
    pub settings: TopicSettings,
    pub tokens: Vec<StoredToken>,
}

impl Found {
    /// Reads a whole store. Counts must match the lists, and each listed job must equal the job
    /// that a get returns.
    pub async fn of(store: &dyn Store) -> Self {
        let mut found = Self::default();
        for bucket in store.buckets().all() {
            let page = TopicPage { limit: 1000, ..TopicPage::default() };
            for (topic, peek) in store.topics(bucket, page).await.expect("topics") {
                for state in State::ALL {
                    let range = JobRange { limit: 1000, ..JobRange::default() };
                    let page =
                        store.list(bucket, topic.clone(), state, range).await.expect("a list");
                    assert_eq!(page.next, None, "the jobs do not fit into one page");
                    let listed = page.jobs.len() + page.damaged.len();
                    assert_eq!(peek.counts.of(state), listed as u64, "{topic} {state:?}");
                    for job in page.jobs {
                        let shown = store.get(bucket, target(&job.id)).await.expect("a job");
                        assert_eq!(shown.as_ref(), Some(&job), "a get and a list differ");
                        assert_eq!((&job.topic, job.state), (&topic, state));
                        let before = found.jobs.insert(job.id.clone(), job);
                        assert_eq!(before, None, "a job is in two lists");
                    }
                    found.damaged.extend(page.damaged.into_iter().map(|job| (job.id, job.reason)));
                }
                found.topics.push((topic, peek.counts));
            }
        }
        if let Some(SettingsChanges::All(settings)) = store.settings(0).await.expect("settings") {
            found.settings = TopicSettings { version: 0, ..settings };
        }
        found.tokens =
            store.tokens(None).await.expect("tokens").map(|all| all.tokens).unwrap_or_default();
        found.tokens.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// Promotes until no job is due.
pub async fn settle(store: &dyn Store) {
    for bucket in store.buckets().all() {
        while promote_in(store, bucket, 100)
            .await
            .expect("promote")
            .next
            .is_some_and(Next::has_passed)
        {}
    }
}
