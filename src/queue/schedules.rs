//! Schedules in the store: reads, changes, and the puts of their jobs.

use std::sync::Arc;

use tokio::sync::futures::Notified;

use super::{batching::dispatcher::divide, error::QueueError, put::Put, service::Queue};
use crate::{
    job::{JobId, Millis, NewJob, ScheduleName, State},
    store::{
        DueSchedules, Fired, Firing, Hint, ScheduleChange, ScheduleChanged, SchedulePage,
        SchedulesFound, StoreError, StoreResult, StoredSchedule,
    },
};

impl Queue {
    /// Reads up to `limit` schedules that are due, fewer if their texts are long.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.store.due_schedules(limit).await
    }

    /// Reads a schedule.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn schedule(&self, name: ScheduleName) -> StoreResult<Option<StoredSchedule>> {
        self.store.schedule(name).await
    }

    /// Reads a page of schedules.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn schedules(&self, page: SchedulePage) -> StoreResult<SchedulesFound> {
        self.store.schedules(page).await
    }

    /// Changes schedules in a task of its own: a client that disconnects must not keep the servers
    /// from learning of the change.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn change_schedules(
        &self,
        changes: Vec<ScheduleChange>,
    ) -> StoreResult<Vec<ScheduleChanged>> {
        let store = Arc::clone(&self.store);
        let notify = Arc::clone(&self.schedules_changed);
        let task = self.calls.spawn(async move {
            let changed = store.change_schedules(changes).await;
            // Also after an error, since the change may have been made.
            store.publish(Hint::Schedules);
            notify.notify_one();
            changed
        });
        task.await.unwrap_or_else(|_| Err(StoreError::unknown("the change panicked")))
    }

    /// Makes the changes of a server that has just looked at these schedules. Other servers see
    /// them when they look.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn advance_schedules(
        &self,
        changes: Vec<ScheduleChange>,
    ) -> StoreResult<Vec<ScheduleChanged>> {
        self.store.change_schedules(changes).await
    }

    /// Puts the jobs of schedules and advances these schedules.
    pub async fn fire(&self, firings: Vec<Firing>) -> Vec<Result<Fired, QueueError>> {
        self.submit_each(firings, &self.transitions.fire).await
    }

    /// Returns the job of a put with an id, with all defaults filled in. On a cluster it is kept
    /// after its finish, so that a repeated put is harmless.
    pub fn scheduled_job(&self, put: Put) -> NewJob {
        let mut job = self.with_defaults(put);
        let kept: Millis = self.store.kept_after_firing();
        job.policy.finished_retention = job.policy.finished_retention.max(kept);
        job
    }

    /// Reads the states of jobs; `None` for jobs that do not exist. A failing bucket affects only
    /// its own jobs.
    pub async fn states(&self, ids: Vec<JobId>) -> Vec<StoreResult<Option<State>>> {
        let buckets = self.store.buckets();
        let (parts, order) = divide(ids, |id: &JobId| buckets.of(id));
        let counts: Vec<usize> = parts.iter().map(|(_, ids)| ids.len()).collect();
        let states = self.store.states(parts).await.into_iter().zip(counts);
        let each = states.map(|(states, count)| match states {
            Ok(states) => states.into_iter().map(Ok).collect(),
            Err(error) => (0..count).map(|_| Err(error.clone())).collect::<Vec<_>>(),
        });
        order.restore(each.collect())
    }

    /// Waits until this or another server has changed schedules since the last call.
    pub fn schedules_changed(&self) -> Notified<'_> {
        self.schedules_changed.notified()
    }
}
