//! States of the model, and every possible next step.

use delay_queue::job::{After, Due, Event, Refusal, State};

pub struct Rules {
    /// State table: the effect of an event on a job.
    pub table: fn(Option<State>, Event) -> Result<Option<State>, Refusal>,
    /// Whether a reservation keeps other consumers off.
    pub fenced: bool,
    /// Whether a promote moves only due jobs.
    pub judges_time: bool,
    /// Whether servers poll the store. A poll may come before any step, so polling servers may act
    /// on all that is true; others act on what they know.
    pub polls: bool,
    /// Whether hints are lost, and servers crash.
    pub has_losses: bool,
    /// Whether a change of a job ends the hold of a consumer whose TTR ended.
    pub change_ends_hold: bool,
    /// Limit of a job's reservations, including those given back.
    pub reservations: u8,
}

const TTR: u8 = 1;
const MAX_ATTEMPTS: u8 = 2;
/// Last time at which something begins.
const END: u8 = 2;

/// Complete state: the store, the servers, the consumers, and the clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct World {
    now: u8,
    jobs: [Job; 2],
    servers: [Server; 2],
    consumers: [Consumer; 3],
    has_crashed: bool,
}

/// Job in the store, and the promises made about it.
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
}

/// Knowledge of a server; another server may have made it outdated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Server {
    deadline: Option<u8>,
    has_ready: bool,
    /// Job and reservation that no client waits for any more, to be given back.
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

/// A step; `told` says whether the other server gets the hint.
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
    Release { consumer: usize, server: usize, delay: u8, answered: bool },
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
                    let release = |delay| Step::Release { consumer, server: 0, delay, answered };
                    steps.extend([0, 1].map(release));
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
        // The jobs are alike, so it is enough to change one of them once.
        let first = &self.jobs[0];
        if first.given > 0 && first.outdated == 0 {
            steps.push(Step::Change { server });
        }
        let may_crash = rules.has_losses && !self.has_crashed;
        if may_crash {
            steps.push(Step::Crash { server });
        }
        // Idle consumers are alike.
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
            Step::GiveBack { server } => next.give_back(rules, server),
            Step::Change { server } => next.change(rules, server),
            Step::Finish { consumer, answered } => next.finish(rules, consumer, answered)?,
            Step::Release { consumer, server, delay, answered } => {
                next.release(rules, consumer, server, (delay, answered))?;
            }
            Step::Forget { consumer } => next.consumers[consumer] = Consumer::Idle,
        }
        for (number, job) in next.jobs.iter().enumerate() {
            if job.was_put && job.state.is_none() && !job.is_finished {
                return Err(format!("job {number} is lost"));
            }
        }
        next.forget(rules);
        Ok(next)
    }

    /// Makes worlds equal that have the same possible next steps.
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
            job.at = if job.at <= now { 0 } else { job.at };
            job.not_before = if job.not_before <= now { 0 } else { job.not_before };
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

    /// Requires that each job can be popped, once nothing is lost any more and time passes.
    pub fn settles(&self, rules: &Rules) -> Result<(), Promise> {
        let mut world = self.clone();
        for _ in 0..4 {
            for server in 0..world.servers.len() {
                world.give_back(rules, server);
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

    fn put(&mut self, rules: &Rules, job: usize, (server, told): (usize, bool), delay: u8) {
        let due = if delay == 0 { Due::Now } else { Due::Later };
        let at = self.now + delay;
        let Ok(state) = (rules.table)(None, Event::Put(due)) else { return };
        self.jobs[job] = Job { state, at, not_before: at, was_put: true, ..Job::default() };
        self.tell(server, told);
        self.learn(server, self.jobs[job]);
        if told {
            self.learn(1 - server, self.jobs[job]);
        }
    }

    /// Updates a server's knowledge after it, or a server that sent it a hint, has moved a job.
    fn learn(&mut self, server: usize, job: Job) {
        let server = &mut self.servers[server];
        match job.state {
            Some(State::Ready) => server.has_ready = true,
            Some(State::Delayed | State::Reserved) => {
                server.deadline = Some(server.deadline.map_or(job.at, |known| known.min(job.at)));
            }
            _ => {}
        }
    }

    fn tell(&mut self, server: usize, told: bool) {
        let ready = self.jobs.iter().any(|job| job.state == Some(State::Ready));
        self.servers[server].has_ready |= ready;
        self.servers[1 - server].has_ready |= ready && told;
    }

    fn promote(&mut self, rules: &Rules, server: usize, told: bool) {
        for job in &mut self.jobs {
            let then = match job.state {
                Some(State::Reserved) if job.attempt >= MAX_ATTEMPTS => After::Spent,
                _ => After::Now,
            };
            let is_due = job.at <= self.now || !rules.judges_time;
            let has_deadline = matches!(job.state, Some(State::Delayed | State::Reserved));
            if is_due && has_deadline {
                job.state = (rules.table)(job.state, Event::Promote(then)).unwrap_or(job.state);
            }
        }
        self.tell(server, told);
        self.servers[server].deadline = self.next_deadline();
    }

    fn next_deadline(&self) -> Option<u8> {
        let waits = |job: &&Job| matches!(job.state, Some(State::Delayed | State::Reserved));
        self.jobs.iter().filter(waits).map(|job| job.at).min()
    }

    /// Returns the deadline that a server acts on, and whether it looks for ready jobs.
    fn known(&self, rules: &Rules, server: usize) -> (Option<u8>, bool) {
        let Server { deadline, has_ready, .. } = self.servers[server];
        let ready = self.jobs.iter().any(|job| job.state == Some(State::Ready));
        if rules.polls { (self.next_deadline(), ready) } else { (deadline, has_ready) }
    }

    fn crash(&mut self, server: usize) {
        self.servers[server] = Server::default();
        self.has_crashed = true;
    }

    fn pop(
        &mut self,
        rules: &Rules,
        consumer: usize,
        server: usize,
        number: usize,
        delivery: Delivery,
    ) -> Result<(), Promise> {
        let job = self.jobs[number];
        let Ok(state) = (rules.table)(job.state, Event::Pop) else {
            self.servers[server].has_ready =
                self.jobs.iter().any(|job| job.state == Some(State::Ready));
            return Ok(());
        };
        if job.given == rules.reservations {
            return Ok(());
        }
        let (reservation, until) = (job.given + 1, self.now + TTR);
        let attempt = job.attempt + 1;
        let popped = Job {
            state,
            at: until,
            attempt,
            reservation: Some(reservation),
            given: reservation,
            ..job
        };
        self.jobs[number] = popped;
        self.learn(server, popped);
        match delivery {
            Delivery::ServerCrashes => self.crash(server),
            Delivery::ClientIsGone => {
                self.servers[server].undelivered = Some((number, reservation));
            }
            Delivery::Arrives => {
                self.judge_delivery(number, job)?;
                self.consumers[consumer] = Consumer::Holds { job: number, reservation, until };
            }
        }
        Ok(())
    }

    /// Checks the promises when a consumer gets this job, whose state before is `job`.
    fn judge_delivery(&self, number: usize, job: Job) -> Result<(), Promise> {
        let is_held = |consumer: &Consumer| matches!(consumer, Consumer::Holds { job, until, .. } if *job == number && *until > self.now);
        // A holder that gave the job back, without an answer to that call, holds it no more.
        let was_held = self.consumers.iter().any(is_held) && job.reservation.is_some();
        let broken = match () {
            () if self.now < job.not_before => "early",
            () if was_held => "given to two holders",
            () if job.is_finished => "delivered after its finish",
            () if job.attempt >= MAX_ATTEMPTS => "delivered more often than max_attempts",
            () => return Ok(()),
        };
        Err(format!("job {number} is {broken}"))
    }

    fn give_back(&mut self, rules: &Rules, server: usize) {
        let Some((number, reservation)) = self.servers[server].undelivered.take() else { return };
        let job = &mut self.jobs[number];
        if job.reservation != Some(reservation) {
            return;
        }
        if let Ok(state) = (rules.table)(job.state, Event::Unpop) {
            *job = Job { state, attempt: job.attempt - 1, reservation: None, ..*job };
            self.tell(server, false);
        }
    }

    /// Reschedules the first job to now, or gives it other contents.
    fn change(&mut self, rules: &Rules, server: usize) {
        let job = &mut self.jobs[0];
        let Ok(state) = (rules.table)(job.state, Event::Reschedule(Due::Now)) else { return };
        let reservation = job.reservation.filter(|_| !rules.change_ends_hold);
        let (at, outdated) = (self.now, job.given);
        *job = Job { state, at, not_before: at, reservation, outdated, ..*job };
        self.tell(server, false);
    }

    /// Reports whether the store lets this reservation act on the job; the job may not have been
    /// changed since the reservation.
    fn may_act(&self, rules: &Rules, number: usize, reservation: u8) -> Result<bool, Promise> {
        let job = &self.jobs[number];
        let is_last = job.reservation == Some(reservation);
        if is_last && job.state.is_some() && reservation <= job.outdated {
            return Err(format!("job {number} has a holder from before its change"));
        }
        Ok(job.state.is_some() && (!rules.fenced || is_last))
    }

    fn finish(&mut self, rules: &Rules, consumer: usize, answered: bool) -> Result<(), Promise> {
        let Consumer::Holds { job: number, reservation, .. } = self.consumers[consumer] else {
            return Ok(());
        };
        let has_acted = self.may_act(rules, number, reservation)?;
        if has_acted {
            let job = &mut self.jobs[number];
            if job.reservation != Some(reservation) && job.state == Some(State::Reserved) {
                return Err(format!("job {number} is finished by another, for its holder"));
            }
            job.state =
                (rules.table)(job.state, Event::Finish { kept: false }).unwrap_or(job.state);
            job.is_finished = true;
        }
        if answered || !has_acted {
            self.consumers[consumer] = Consumer::Idle;
        }
        Ok(())
    }

    fn release(
        &mut self,
        rules: &Rules,
        consumer: usize,
        server: usize,
        (delay, answered): (u8, bool),
    ) -> Result<(), Promise> {
        let Consumer::Holds { job: number, reservation, .. } = self.consumers[consumer] else {
            return Ok(());
        };
        let has_acted = self.may_act(rules, number, reservation)?;
        if has_acted {
            let job = &mut self.jobs[number];
            let then = match delay {
                _ if job.attempt >= MAX_ATTEMPTS => After::Spent,
                0 => After::Now,
                _ => After::Later,
            };
            let at = self.now + delay;
            if let Ok(state) = (rules.table)(job.state, Event::Release(then)) {
                *job = Job { state, at, not_before: at, reservation: None, ..*job };
            }
            let job = *job;
            self.learn(server, job);
        }
        if answered || !has_acted {
            self.consumers[consumer] = Consumer::Idle;
        }
        Ok(())
    }
}
