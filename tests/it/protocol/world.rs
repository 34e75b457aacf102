//! States of the model, and every possible next step.

mod core;
mod transitions;

use delay_queue::job::State;

/// A step that concerns one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Pop,
    /// Acts on the end of a TTR, and on an expiry.
    Overdue,
    Change,
    Finish,
    Release,
}

/// A wrong rule: takes the states before and after a verb, and returns a wrong one after it.
pub type Wrong = fn(State, Verb, Option<State>) -> Option<Option<State>>;

pub struct Rules {
    pub wrong: Option<Wrong>,
    /// Whether only the last reservation can act on a job.
    pub fenced: bool,
    /// Whether a promote moves only due jobs.
    pub judges_time: bool,
    /// Whether servers poll the store. A poll may occur before any step, so polling servers act on
    /// the current state of the store. Other servers act on what hints and their own calls have
    /// shown them.
    pub polls: bool,
    /// Whether hints are lost, and servers crash.
    pub has_losses: bool,
    /// Whether a change of a job ends the reservation of a consumer whose TTR has ended.
    pub change_ends_hold: bool,
    /// Maximum number of reservations of a job, including reservations that were given back.
    pub reservations: u8,
    pub ttr: u8,
    /// Whether the first job expires, and consumers release it uncounted too.
    pub expires: bool,
    /// Whether pops look at the expiry.
    pub pops_expire: bool,
    /// Whether an uncounted attempt may be the last one.
    pub uncounted_ends: bool,
}

impl Rules {
    /// Returns the state that a wrong rule gives to a job.
    fn wrong_state(
        &self,
        before: Option<State>,
        verb: Verb,
        after: Option<State>,
    ) -> Option<Option<State>> {
        self.wrong?(before?, verb, after)
    }
}

const MAX_ATTEMPTS: u8 = 2;
/// Time from the due time of a job until it expires.
const LIFE: u8 = 1;
/// Last time at which something begins.
const END: u8 = 2;

/// The complete state: the store, the servers, the consumers, and the clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct World {
    now: u8,
    jobs: [Job; 2],
    servers: [Server; 2],
    consumers: [Consumer; 3],
    has_crashed: bool,
}

/// A job in the store, and the promises made about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Job {
    state: Option<State>,
    /// Deadline of the timer.
    at: u8,
    attempt: u8,
    /// Reservation of the last pop, until its consumer gives the job back.
    reservation: Option<u8>,
    given: u8,
    /// Last reservation given before the job was changed.
    outdated: u8,
    was_put: bool,
    is_finished: bool,
    not_before: u8,
    /// When the job expires; 0 if never.
    expires_at: u8,
}

/// Knowledge of a server, which calls of the other server may have made outdated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Server {
    deadline: Option<u8>,
    has_ready: bool,
    /// A job and its reservation that the server must give back, since no client waits for them any
    /// more.
    undelivered: Option<(usize, u8)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Consumer {
    #[default]
    Idle,
    Holds {
        job: usize,
        reservation: u8,
        until: u8,
    },
}

/// Fate of the jobs that a pop has reserved.
#[derive(Debug, Clone, Copy)]
pub enum Delivery {
    Arrives,
    ClientIsGone,
    ServerCrashes,
}

/// A step. `told` is whether the other server gets the hint.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    TimePasses,
    Put { job: usize, server: usize, delay: u8, told: bool },
    Promote { server: usize, told: bool },
    Crash { server: usize },
    Pop { consumer: usize, server: usize, job: usize, delivery: Delivery },
    GiveBack { server: usize },
    Change { server: usize },
    Finish { consumer: usize, answered: bool },
    Release { consumer: usize, server: usize, delay: u8, is_counted: bool, answered: bool },
    Forget { consumer: usize },
}

type Promise = String;

impl World {
    /// Returns every possible step, and the state after it.
    pub fn steps(&self, rules: &Rules) -> Vec<(Step, Result<Self, Promise>)> {
        let mut steps = Vec::new();
        if self.now < END {
            steps.push(Step::TimePasses);
        }
        for server in 0..self.servers.len() {
            self.steps_of(rules, server, &mut steps);
        }
        for (consumer, what) in self.consumers.iter().enumerate() {
            if let Consumer::Holds { .. } = what {
                steps.push(Step::Forget { consumer });
                for answered in [true, false] {
                    steps.push(Step::Finish { consumer, answered });
                    let release = |delay, is_counted| Step::Release {
                        consumer,
                        server: 0,
                        delay,
                        is_counted,
                        answered,
                    };
                    steps.extend([0, 1].map(|delay| release(delay, true)));
                    if rules.expires {
                        steps.extend([0, 1].map(|delay| release(delay, false)));
                    }
                }
            }
        }
        let after = |step| (step, self.after(step, rules));
        steps.into_iter().map(after).filter(|(_, next)| next.as_ref() != Ok(self)).collect()
    }

    fn steps_of(&self, rules: &Rules, server: usize, steps: &mut Vec<Step>) {
        // For servers that poll, lost hints make no difference.
        let told: &[bool] = if rules.has_losses && !rules.polls { &[true, false] } else { &[true] };
        let (deadline, has_ready) = self.known(rules, server);
        let undelivered = self.servers[server].undelivered;
        for (job, _) in self.jobs.iter().enumerate().filter(|(_, job)| !job.was_put) {
            for &told in told {
                steps.extend([0, 1].map(|delay| Step::Put { job, server, delay, told }));
            }
        }
        if deadline.is_some_and(|at| at <= self.now) {
            steps.extend(told.iter().map(|&told| Step::Promote { server, told }));
        }
        if undelivered.is_some() {
            steps.push(Step::GiveBack { server });
        }
        // The jobs are interchangeable, so it suffices to change one of them once.
        let first = &self.jobs[0];
        if first.given > 0 && first.outdated == 0 {
            steps.push(Step::Change { server });
        }
        let may_crash = rules.has_losses && !self.has_crashed;
        if may_crash {
            steps.push(Step::Crash { server });
        }
        // Idle consumers are interchangeable.
        let idle = self.consumers.iter().position(|consumer| *consumer == Consumer::Idle);
        if let Some(consumer) = idle.filter(|_| has_ready) {
            for job in 0..self.jobs.len() {
                steps.push(Step::Pop { consumer, server, job, delivery: Delivery::Arrives });
                if undelivered.is_none() {
                    let delivery = Delivery::ClientIsGone;
                    steps.push(Step::Pop { consumer, server, job, delivery });
                }
                if may_crash {
                    let delivery = Delivery::ServerCrashes;
                    steps.push(Step::Pop { consumer, server, job, delivery });
                }
            }
        }
    }

    fn after(&self, step: Step, rules: &Rules) -> Result<Self, Promise> {
        let mut next = self.clone();
        match step {
            Step::TimePasses => next.now += 1,
            Step::Put { job, server, delay, told } => next.put(rules, job, (server, told), delay),
            Step::Promote { server, told } => next.promote(rules, server, told),
            Step::Crash { server } => next.crash(server),
            Step::Pop { consumer, server, job, delivery } => {
                next.pop(rules, consumer, server, job, delivery)?;
            }
            Step::GiveBack { server } => next.give_back(server),
            Step::Change { server } => next.change(rules, server),
            Step::Finish { consumer, answered } => next.finish(rules, consumer, answered)?,
            Step::Release { consumer, server, delay, is_counted, answered } => {
                next.release(rules, consumer, server, (delay, is_counted, answered))?;
            }
            Step::Forget { consumer } => next.consumers[consumer] = Consumer::Idle,
        }
        for (number, job) in next.jobs.iter().enumerate() {
            if job.was_put && job.state.is_none() && !job.is_finished {
                return Err(format!("job {number} is lost"));
            }
        }
        for consumer in &next.consumers {
            if let Consumer::Holds { job, reservation, until } = *consumer
                && let Job { state: Some(State::Dead), reservation: last, .. } = next.jobs[job]
                && last == Some(reservation)
                && until > next.now
            {
                return Err(format!("job {job} dies while it is held"));
            }
        }
        next.forget(rules);
        Ok(next)
    }

    /// Removes differences that affect no later step, so that equivalent states are equal.
    fn forget(&mut self, rules: &Rules) {
        let now = self.now;
        for job in &mut self.jobs {
            if job.state.is_none() {
                let Job { was_put, is_finished, .. } = *job;
                *job = Job { was_put, is_finished, ..Job::default() };
            }
            if !matches!(job.state, Some(State::Delayed | State::Reserved)) {
                job.at = 0;
            }
            job.not_before = if job.not_before <= now { 0 } else { job.not_before };
            // Whether a job has expired at the end of its TTR depends on both times.
            if job.expires_at == 0 || job.state != Some(State::Reserved) {
                job.at = if job.at <= now { 0 } else { job.at };
                // Any time that has come is as good as another, but for 0.
                job.expires_at = if job.has_expired_by(now) { 1 } else { job.expires_at };
            }
        }
        for consumer in &mut self.consumers {
            if let Consumer::Holds { job, until, .. } = consumer {
                *until = if *until <= now { 0 } else { *until };
                if self.jobs[*job].state.is_none() {
                    *consumer = Consumer::Idle;
                }
            }
        }
        for server in &mut self.servers {
            if rules.polls {
                (server.deadline, server.has_ready) = (None, false);
            }
            server.deadline = server.deadline.map(|at| if at <= now { 0 } else { at });
            let is_gone = |(job, _): &(usize, u8)| self.jobs[*job].state.is_none();
            server.undelivered = server.undelivered.filter(|what| !is_gone(what));
        }
        // Servers are interchangeable, and so are consumers.
        self.servers.sort_unstable();
        self.consumers.sort_unstable();
    }

    /// Requires that each job can be popped after some time without further losses.
    pub fn settles(&self, rules: &Rules) -> Result<(), Promise> {
        let mut world = self.clone();
        for _ in 0..4 {
            for server in 0..world.servers.len() {
                world.give_back(server);
                if world.known(rules, server).0.is_some_and(|at| at <= world.now) {
                    world.promote(rules, server, true);
                }
            }
            world.now += 1;
        }
        let is_known = (0..2).any(|server| world.known(rules, server).1);
        for (number, job) in world.jobs.iter().enumerate() {
            match job.state {
                Some(State::Ready) if is_known => {}
                None | Some(State::Dead) => {}
                state => return Err(format!("job {number} is stuck, {state:?}")),
            }
        }
        Ok(())
    }
}
