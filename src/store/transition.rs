//! Transitions as values: what a store is told to do, and what became of it.
//!
//! The table at the end of this file has one row for each transition. A row becomes a variant of
//! [`Command`], one of [`Outcome`], a type in [`verb`] that ties the two together, and a function of
//! `dyn Store`. So a store is one function from commands to outcomes, and what concerns every
//! transition (measuring, tracing, dispatching) is written once; its callers see the types of the
//! row alone, and an answer to another command cannot reach them.

use futures::future::{BoxFuture, FutureExt};

use super::{
    Bury, Claim, KickDead, Parts, Placed, PopRequest, Popped, Promote, Promoted, Purge, Release,
    Reply, Store, StoreError, StoreResult, StoreResults, Target, Touch, Transitioned,
};
use crate::job::{Bucket, Change, Job, NewJob, Nonce, State, Topic, UnixMillis};

/// The part of a store that changes jobs.
pub trait JobTransitions: Send + Sync {
    /// Carries out a call. Its outcome is that of the same verb, with one result for each part.
    fn apply(&self, command: Command) -> BoxFuture<'_, Outcome>;
}

/// A row of the table. Its types are found in [`verb`].
pub trait Transition: Sized + Send + 'static {
    /// What one bucket is given.
    type Part: Part;
    /// What one bucket replies.
    type Reply: Send + 'static;

    /// What this call is to a store.
    fn command(call: Call<Self>) -> Command;

    /// What a store answers to it.
    fn outcome(results: StoreResults<Self::Reply>) -> Outcome;

    /// The results in an outcome; none in that of another transition.
    fn results(outcome: Outcome) -> Option<StoreResults<Self::Reply>>;
}

/// One call of a transition, for some buckets at once.
pub struct Call<T: Transition> {
    /// What each bucket is given.
    pub parts: Parts<T::Part>,
}

impl<T: Transition> Call<T> {
    /// Carries the call out by `work`, which replies for each part.
    pub fn by<'a, F>(self, work: impl FnOnce(Parts<T::Part>) -> F) -> BoxFuture<'a, Outcome>
    where
        F: Future<Output = StoreResults<T::Reply>> + Send + 'a,
    {
        work(self.parts).map(T::outcome).boxed()
    }
}

/// What one bucket is given.
pub trait Part: Send + Sync + 'static {
    /// How many jobs it names, or asks for; none if that is not known before.
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

impl Part for KickDead {
    fn jobs(&self) -> Option<usize> {
        None
    }
}

impl dyn Store + '_ {
    /// Makes one call of a transition; what became of each part, in the order of the parts.
    pub async fn call<T: Transition>(&self, parts: Parts<T::Part>) -> StoreResults<T::Reply> {
        let count = parts.len();
        let outcome = self.apply(T::command(Call { parts })).await;
        let other = || StoreError::unreadable("an answer to another transition");
        T::results(outcome).unwrap_or_else(|| (0..count).map(|_| Err(other())).collect())
    }

    /// The same for one bucket.
    ///
    /// # Errors
    /// What became of it.
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
        /// A transition by its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the functions of `dyn Store` say what each of them is")]
        pub enum Verb {
            $($Verb),+
        }

        impl Verb {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$Verb),+];

            /// As metrics, traces and scripts call it.
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
            /// Which transition it is.
            pub fn verb(&self) -> Verb {
                match self {
                    $(Self::$Verb(_) => Verb::$Verb),+
                }
            }

            /// How many jobs it names, or asks for; none if that is not known before.
            pub fn jobs(&self) -> Option<usize> {
                match self {
                    $(Self::$Verb(call) => call.parts.iter().map(|(_, part)| part.jobs()).sum()),+
                }
            }
        }

        /// What became of each part of a call.
        #[expect(missing_docs, reason = "the functions of `dyn Store` say what each of them is")]
        pub enum Outcome {
            $($Verb(StoreResults<$reply>)),+
        }

        impl Outcome {
            /// Whether a part failed.
            pub fn has_failed(&self) -> bool {
                match self {
                    $(Self::$Verb(results) => results.iter().any(Result::is_err)),+
                }
            }
        }

        /// Each transition as a type.
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
    /// absent → delayed or ready. A living id is refused with `Exists`, or kept or replaced, as the
    /// job asks, if the living job has the same topic; a reserved job is never replaced
    /// (`Reserved`). A due time beyond ten years from now is `DueTooFar`.
    put, Put(Vec<NewJob>) -> Vec<Reply<Placed>>;

    /// absent → the state that the job says, with its times, attempts, reservation and error: as
    /// [`list`](super::JobReads::list) read it in another store. A living id is refused with
    /// `Exists`. Jobs that are ordered by the order of their arrival arrive in that of the batch.
    restore, Restore(Vec<Job>) -> Vec<Reply<()>>;

    /// ready → reserved, for up to `count` jobs of each want, in due order. The attempt is counted
    /// and the reservation written in the same transition. Deadline: now + TTR.
    pop, Pop((Nonce, Vec<PopRequest>)) -> Vec<Popped>;

    /// reserved → ready, before what was popped: the reservation and its attempt never were.
    /// Refused with `ReservationLost` unless the reservation still holds the job. Done also while
    /// nothing confirms writes: else attempts would be spent on what reached no consumer.
    unpop, Unpop(Vec<Claim>) -> Vec<Reply<Topic>>;

    /// popped → gone. Takes the last reservation also after its TTR expired, in any state, unless a
    /// reschedule ended it; see [`Reservation::check`](crate::job::Reservation::check). Replies the
    /// topic it had.
    finish, Finish(Vec<Claim>) -> Vec<Reply<Topic>>;

    /// popped → ready or delayed by the given delay, else by the job's backoff; dead if the
    /// attempts are spent. The reservation ends. Dead stays dead. By id alone only what is reserved
    /// (`NotReserved`).
    release, Release(Vec<Release>) -> Vec<Reply<Transitioned>>;

    /// reserved → reserved, deadline now + TTR. A reservation past its end is `ReservationLost`.
    touch, Touch(Vec<Touch>) -> Vec<Reply<UnixMillis>>;

    /// popped → dead, with an error text. The reservation ends.
    bury, Bury(Vec<Bury>) -> Vec<Reply<Transitioned>>;

    /// delayed, dead → ready now; a dead job's attempts start from zero. `Reserved` is refused.
    kick, Kick(Vec<Target>) -> Vec<Reply<Topic>>;

    /// any → gone. Replies the state the job was in.
    delete, Delete(Vec<Target>) -> Vec<Reply<State>>;

    /// delayed, ready → delayed, ready: another time or other contents. Ends the hold of a consumer
    /// whose TTR expired. `Reserved` and `Dead` are refused, a due time beyond ten years is
    /// `DueTooFar`. `max_attempts` follows another backoff as [`Change::with_attempts`](crate::job::Change::with_attempts) says.
    /// Replies the job as it is then.
    reschedule, Reschedule(Vec<(Target, Change)>) -> Vec<Reply<Job>>;

    /// Acts on overdue deadlines, the set with the earliest first: delayed → ready; reserved →
    /// ready, delayed (backoff) or dead (attempts spent); dead → gone (retention over). What follows
    /// is computed from the deadline, not from now: it does not matter when, where or how often this
    /// runs. After a jump of the store's clock forward, deadlines are judged by the clock before it
    /// for a while ([`ClockJumps`](super::ClockJumps)).
    promote, Promote(Promote) -> Promoted;

    /// any → gone, for the first jobs of one topic and state. Replies how many.
    purge, Purge(Purge) -> u64;

    /// dead → ready now, attempts from zero, for the jobs of a topic that died first. Replies how
    /// many.
    kick_dead, KickDead(KickDead) -> u64;
}
