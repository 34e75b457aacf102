//! Transitions as values: commands to a store, and their outcomes.
//!
//! The table at the end of this file has one row for each transition. A row becomes a variant of
//! [`Command`], a variant of [`Outcome`], a type in [`verb`] that connects the two, and a function
//! of `dyn Store`. So a store is one function from commands to outcomes, and code that serves all
//! transitions (measuring, tracing, dispatching) exists once. Callers use only the types of their
//! row, and never see the outcome of another command.

use futures::future::{BoxFuture, FutureExt};

use super::{
    Bury, Delete, Finish, Fired, Firing, JobRef, KickDead, Matched, Parts, Placed, PopRequest,
    Popped, Promote, Promoted, Purge, Readied, ReadyJobs, Release, Reply, Selection, Store,
    StoreError, StoreResult, StoreResults, Target, Touch, Transitioned,
};
use crate::job::{Bucket, Change, Job, NewJob, Nonce, State, Topic, UnixMillis};

/// The part of a store that changes jobs.
pub trait JobTransitions: Send + Sync {
    /// Applies a command. The outcome has the same verb, and one result for each part.
    fn apply(&self, command: Command) -> BoxFuture<'_, Outcome>;
}

/// A row of the table, implemented by the types in [`verb`].
pub trait Transition: Sized + Send + 'static {
    /// Request to one bucket.
    type Part: Part;
    /// Reply of one bucket.
    type Reply: Send + 'static;

    /// Wraps a call as a command.
    fn command(call: Call<Self>) -> Command;

    /// Wraps results as an outcome.
    fn outcome(results: StoreResults<Self::Reply>) -> Outcome;

    /// Returns the results in an outcome; `None` if the outcome belongs to another transition.
    fn results(outcome: Outcome) -> Option<StoreResults<Self::Reply>>;
}

/// A call of a transition for several buckets.
pub struct Call<T: Transition> {
    /// Requests to the buckets.
    pub parts: Parts<T::Part>,
}

impl<T: Transition> Call<T> {
    /// Applies the call by `work`, which returns a result for each part.
    pub fn by<'a, F>(self, work: impl FnOnce(Parts<T::Part>) -> F) -> BoxFuture<'a, Outcome>
    where
        F: Future<Output = StoreResults<T::Reply>> + Send + 'a,
    {
        work(self.parts).map(T::outcome).boxed()
    }
}

/// Request to one bucket.
pub trait Part: Send + Sync + 'static {
    /// Returns the number of jobs that the request names or asks for; `None` if it is unknown in
    /// advance.
    fn jobs(&self) -> Option<usize>;
}

impl<J: Send + Sync + 'static> Part for Vec<J> {
    fn jobs(&self) -> Option<usize> {
        Some(self.len())
    }
}

impl Part for (Nonce, Vec<PopRequest>) {
    fn jobs(&self) -> Option<usize> {
        Some(self.1.iter().map(|want| usize::from(want.count)).sum())
    }
}

impl Part for Promote {
    fn jobs(&self) -> Option<usize> {
        Some(0)
    }
}

impl Part for Purge {
    fn jobs(&self) -> Option<usize> {
        None
    }
}

impl Part for Selection {
    fn jobs(&self) -> Option<usize> {
        None
    }
}

impl Part for KickDead {
    fn jobs(&self) -> Option<usize> {
        None
    }
}

impl dyn Store + '_ {
    /// Calls a transition; returns the results in the order of the parts.
    pub async fn call<T: Transition>(&self, parts: Parts<T::Part>) -> StoreResults<T::Reply> {
        let count = parts.len();
        let outcome = self.apply(T::command(Call { parts })).await;
        let other = || StoreError::unreadable("an answer to another transition");
        T::results(outcome).unwrap_or_else(|| (0..count).map(|_| Err(other())).collect())
    }

    /// Calls a transition for one bucket.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn call_in<T: Transition>(
        &self,
        bucket: Bucket,
        part: T::Part,
    ) -> StoreResult<T::Reply> {
        let result = self.call::<T>(vec![(bucket, part)]).await.pop();
        result.unwrap_or_else(|| Err(StoreError::unreadable("no reply")))
    }
}

macro_rules! transitions {
    ($($(#[$doc:meta])* $function:ident, $Verb:ident($part:ty) -> $reply:ty;)+) => {
        /// Name of a transition.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the functions of `dyn Store` say what each of them is")]
        pub enum Verb {
            $($Verb),+
        }

        impl Verb {
            /// All verbs, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$Verb),+];

            /// Returns the name in metrics, traces and scripts.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Verb => stringify!($function)),+
                }
            }
        }

        /// A call of any transition.
        #[expect(missing_docs, reason = "the functions of `dyn Store` say what each of them is")]
        pub enum Command {
            $($Verb(Call<verb::$Verb>)),+
        }

        impl Command {
            /// Returns the transition that is called.
            pub fn verb(&self) -> Verb {
                match self {
                    $(Self::$Verb(_) => Verb::$Verb),+
                }
            }

            /// Returns the number of jobs that the call names or asks for; `None` if it is unknown
            /// in advance.
            pub fn jobs(&self) -> Option<usize> {
                match self {
                    $(Self::$Verb(call) => call.parts.iter().map(|(_, part)| part.jobs()).sum()),+
                }
            }
        }

        /// Results of the parts of a call, in their order.
        #[expect(missing_docs, reason = "the functions of `dyn Store` say what each of them is")]
        pub enum Outcome {
            $($Verb(StoreResults<$reply>)),+
        }

        impl Outcome {
            /// Returns whether any part failed.
            pub fn has_failed(&self) -> bool {
                match self {
                    $(Self::$Verb(results) => results.iter().any(Result::is_err)),+
                }
            }
        }

        /// Transitions as types.
        pub mod verb {
            $(
                $(#[$doc])*
                pub struct $Verb;
            )+
        }

        $(
            impl Transition for verb::$Verb {
                type Part = $part;
                type Reply = $reply;

                fn command(call: Call<Self>) -> Command {
                    Command::$Verb(call)
                }

                fn outcome(results: StoreResults<$reply>) -> Outcome {
                    Outcome::$Verb(results)
                }

                fn results(outcome: Outcome) -> Option<StoreResults<$reply>> {
                    match outcome {
                        Outcome::$Verb(results) => Some(results),
                        _ => None,
                    }
                }
            }
        )+

        impl dyn Store + '_ {
            $(
                $(#[$doc])*
                pub async fn $function(&self, parts: Parts<$part>) -> StoreResults<$reply> {
                    self.call::<verb::$Verb>(parts).await
                }
            )+
        }
    };
}

transitions! {
    /// absent → delayed or ready. If a job with this id exists, `on_conflict` decides: the put is
    /// refused with `Exists`, or it keeps or replaces the existing job, if that has the same topic.
    /// A reserved job is never replaced (`Reserved`). A due time beyond ten years from now is
    /// `DueTooFar`.
    put, Put(Vec<NewJob>) -> Vec<Reply<Placed>>;

    /// absent → delayed or ready, like a put; the schedule of the job advances in the same step. If
    /// the schedule has another text than expected, or the id is in use, nothing changes. On a
    /// cluster the schedule advances after the put.
    fire, Fire(Vec<Firing>) -> Vec<Reply<Fired>>;

    /// absent → the state in the job, with its times, attempts, reservation and error, as
    /// [`list`](crate::store::JobReads::list) read it in another store. An id that is in use is
    /// refused with `Exists`. A store that keeps the order of arrival takes the jobs in the order
    /// of the batch.
    restore, Restore(Vec<Job>) -> Vec<Reply<()>>;

    /// ready → reserved, for up to `count` jobs of each request, by priority and then due time. The
    /// same transition counts the attempt and writes the reservation. Deadline: now + TTR. An
    /// expired job dies and is not handed out.
    ///
    /// Wherever a transition makes a job dead, the job may instead be ready in the `dead_to` of its
    /// policy, with attempt 0, due now, without reservation and expiry, and with its error and its
    /// history. It then has a `dead_from` and no `dead_to`. A damaged job stays.
    pop, Pop((Nonce, Vec<PopRequest>)) -> Vec<Popped>;

    /// reserved → ready with the old due time: undoes the pop of a job that reached no consumer, so
    /// that its attempt does not count. Refused with `ReservationLost` unless the reservation still
    /// holds the job. Applied even while writes are not confirmed, since the attempt would be spent
    /// otherwise.
    unpop, Unpop(Vec<JobRef>) -> Vec<Reply<Readied>>;

    /// popped → gone, or finished if its policy keeps it. The last reservation is valid in any
    /// state, also after its TTR ended, unless a reschedule ended it; see
    /// [`Reservation::check`](crate::job::Reservation::check). A finished job keeps its first
    /// result but not its body. A repeated finish by the same reservation changes nothing; a finish
    /// by another reservation is refused with `Finished`. A result for a job that is not kept is
    /// refused with `ResultNotKept`. A store without room for a result drops it. Returns the job's
    /// topic.
    finish, Finish(Vec<Finish>) -> Vec<Reply<Topic>>;

    /// popped → ready or delayed by the given delay, else by the job's backoff; dead if the
    /// attempts are spent, or the job would expire before its next attempt. The reservation ends. A
    /// dead job stays dead. Without a reservation, a job that is not reserved is refused with
    /// `NotReserved`. The attempt may be uncounted, and the body replaced; a store without room for
    /// the new body refuses with `NoRoom`.
    release, Release(Vec<Release>) -> Vec<Reply<Transitioned>>;

    /// reserved → reserved, deadline now + TTR. A reservation past its end is `ReservationLost`.
    touch, Touch(Vec<Touch>) -> Vec<Reply<UnixMillis>>;

    /// popped → dead, with an error text. The reservation ends.
    bury, Bury(Vec<Bury>) -> Vec<Reply<Transitioned>>;

    /// delayed, dead → ready now. A dead job's attempts start from zero, and its `expires_after`
    /// starts now. A reserved job is refused with `Reserved`.
    kick, Kick(Vec<Target>) -> Vec<Reply<Readied>>;

    /// any → gone, or finished if the request asks to remember the id. Returns the state that the
    /// job had.
    delete, Delete(Vec<Delete>) -> Vec<Reply<State>>;

    /// delayed, ready → delayed, ready: changes due time, policy or body. Ends the reservation of a
    /// consumer whose TTR ended. A reserved job is refused with `Reserved`, a dead one with
    /// `Dead`, and a due time beyond ten years with `DueTooFar`. A new backoff may change
    /// `max_attempts`; see [`Policy::set`](crate::job::Policy::set). A new due time or
    /// `expires_after` sets anew when the job expires. Returns the changed job.
    reschedule, Reschedule(Vec<(Target, Change)>) -> Vec<Reply<Job>>;

    /// Acts on overdue deadlines, those of finished jobs last: delayed → ready; delayed, ready →
    /// dead (expired); reserved → ready, delayed (backoff) or dead (attempts spent, or the job
    /// would expire before the next one); dead, finished → gone (retention over). The result
    /// follows from the deadline, not from now: it does not matter when, where or how often this
    /// runs. For a while after a forward jump of the store's clock, deadlines are compared with the
    /// clock before the jump ([`ClockJumps`](crate::store::ClockJumps)).
    promote, Promote(Promote) -> Promoted;

    /// any → gone, for jobs of one topic and state, in any order. Returns their number: it may be
    /// less than the limit although more jobs are left, but not 0.
    purge, Purge(Purge) -> u64;

    /// dead → ready now, attempts from zero, for the jobs of a topic that died first. Their number
    /// may be less than the limit although more jobs are left, but not 0.
    kick_dead, KickDead(KickDead) -> ReadyJobs;

    /// delayed, dead → ready now, like a kick of each, for the jobs of a topic that match a filter,
    /// in the order of their set. Examines a bounded number of them.
    kick_matching, KickMatching(Selection) -> Matched<ReadyJobs>;

    /// any → gone, for the jobs of one topic and state that match a filter. Examines a bounded
    /// number of them.
    purge_matching, PurgeMatching(Selection) -> Matched<u64>;
}
