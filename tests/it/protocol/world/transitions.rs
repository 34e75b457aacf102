//! Calls to the store, each with what servers learn of it, and the promises to consumers.

use delay_queue::job::{After, Change, Due, Event, Millis, PolicyFields, Schedule, State, next};
use delay_queue_core::decide;

use super::core::{clock, held, target};
use super::{Consumer, Delivery, Job, LIFE, MAX_ATTEMPTS, Promise, Rules, Server, Verb, World};

impl Job {
    pub fn has_expired_by(&self, time: u8) -> bool {
        self.expires_at > 0 && self.expires_at <= time
    }
}

impl World {
    pub(super) fn put(
        &mut self,
        rules: &Rules,
        job: usize,
        (server, told): (usize, bool),
        delay: u8,
    ) {
        let due = if delay == 0 { Due::Now } else { Due::Later };
        let at = self.now + delay;
        let Ok(state) = next(None, Event::Put(due)) else { return };
        let expires_at = if rules.expires && job == 0 { at + LIFE } else { 0 };
        let put = Job { state, at, not_before: at, was_put: true, expires_at, ..Job::default() };
        self.jobs[job] = put;
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

    pub(super) fn promote(&mut self, rules: &Rules, server: usize, told: bool) {
        let now = self.now;
        for job in &mut self.jobs {
            let has_deadline = matches!(job.state, Some(State::Delayed | State::Reserved));
            if has_deadline && !rules.judges_time {
                job.at = job.at.min(now);
            }
            job.act(rules, Verb::Overdue, |known| decide::overdue(known, clock(now)));
            if job.state == Some(State::Delayed) && job.at <= now {
                let promoted = next(job.state, Event::Promote(After::Now));
                job.state = promoted.expect("a delayed job becomes ready");
            }
        }
        self.tell(server, told);
        self.servers[server].deadline = self.next_deadline();
    }

    fn next_deadline(&self) -> Option<u8> {
        let deadlines = self.jobs.iter().flat_map(|job| {
            let expires_at = Some(job.expires_at).filter(|at| *at > 0);
            match job.state {
                Some(State::Delayed) => [Some(job.at), expires_at],
                Some(State::Reserved) => [Some(job.at), None],
                Some(State::Ready) => [None, expires_at],
                _ => [None, None],
            }
        });
        deadlines.flatten().min()
    }

    /// Returns the deadline that a server acts on, and whether it looks for ready jobs.
    pub(super) fn known(&self, rules: &Rules, server: usize) -> (Option<u8>, bool) {
        let Server { deadline, has_ready, .. } = self.servers[server];
        let ready = self.jobs.iter().any(|job| job.state == Some(State::Ready));
        if rules.polls { (self.next_deadline(), ready) } else { (deadline, has_ready) }
    }

    pub(super) fn crash(&mut self, server: usize) {
        self.servers[server] = Server::default();
        self.has_crashed = true;
    }

    pub(super) fn pop(
        &mut self,
        rules: &Rules,
        consumer: usize,
        server: usize,
        number: usize,
        delivery: Delivery,
    ) -> Result<(), Promise> {
        let now = self.now;
        let job = &mut self.jobs[number];
        if rules.pops_expire && job.state == Some(State::Ready) {
            job.act(rules, Verb::Overdue, |known| decide::overdue(known, clock(now)));
        }
        let job = *job;
        let popped = next(job.state, Event::Pop);
        let wrong = rules.wrong_state(job.state, Verb::Pop, popped.clone().ok().flatten());
        let Ok(state) = wrong.map_or(popped, Ok) else {
            self.servers[server].has_ready =
                self.jobs.iter().any(|job| job.state == Some(State::Ready));
            return Ok(());
        };
        if job.given == rules.reservations {
            return Ok(());
        }
        let (reservation, until) = (job.given + 1, self.now + rules.ttr);
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
            () if job.has_expired_by(self.now) => "delivered after its expiry",
            () if job.attempt >= MAX_ATTEMPTS => "delivered more often than max_attempts",
            () => return Ok(()),
        };
        Err(format!("job {number} is {broken}"))
    }

    pub(super) fn give_back(&mut self, server: usize) {
        let Some((number, reservation)) = self.servers[server].undelivered.take() else { return };
        let job = &mut self.jobs[number];
        if job.reservation != Some(reservation) {
            return;
        }
        if let Ok(state) = next(job.state, Event::Unpop) {
            *job = Job { state, attempt: job.attempt - 1, reservation: None, ..*job };
            self.tell(server, false);
        }
    }

    /// Reschedules the first job to now, or gives it other contents.
    pub(super) fn change(&mut self, rules: &Rules, server: usize) {
        let now = self.now;
        let job = &mut self.jobs[0];
        let before = *job;
        let change = Change {
            schedule: Some(Schedule::In(Millis::ZERO)),
            body: None,
            policy: PolicyFields::default(),
        };
        if job
            .act(rules, Verb::Change, |known| decide::change(known, clock(now), &target(), &change))
        {
            job.outdated = job.given;
            if !rules.change_ends_hold {
                job.reservation = before.reservation;
            }
            self.tell(server, false);
        }
    }

    /// Checks that the store has let this reservation act on a job that was not changed since.
    fn judge_hold(number: usize, before: Job, reservation: u8) -> Result<(), Promise> {
        match before.reservation == Some(reservation) {
            true if reservation <= before.outdated => {
                Err(format!("job {number} has a holder from before its change"))
            }
            false if before.state == Some(State::Reserved) => {
                Err(format!("job {number} is ended by another, for its holder"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(
        &mut self,
        rules: &Rules,
        consumer: usize,
        answered: bool,
    ) -> Result<(), Promise> {
        let Consumer::Holds { job: number, reservation, .. } = self.consumers[consumer] else {
            return Ok(());
        };
        let now = clock(self.now);
        let job = &mut self.jobs[number];
        let before = *job;
        let held = held(Some(reservation).filter(|_| rules.fenced));
        let finish = decide::Finish { held, result: None };
        let has_acted = job.act(rules, Verb::Finish, |known| decide::finish(known, now, &finish));
        if has_acted {
            job.is_finished = true;
            Self::judge_hold(number, before, reservation)?;
        }
        if answered || !has_acted {
            self.consumers[consumer] = Consumer::Idle;
        }
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        rules: &Rules,
        consumer: usize,
        server: usize,
        (delay, is_counted, answered): (u8, bool, bool),
    ) -> Result<(), Promise> {
        let Consumer::Holds { job: number, reservation, .. } = self.consumers[consumer] else {
            return Ok(());
        };
        let now = clock(self.now);
        let job = &mut self.jobs[number];
        let before = *job;
        let release = decide::Release {
            delay: Some(Millis::new(delay.into())),
            is_uncounted: !is_counted && !rules.uncounted_ends,
            ..decide::Release::new(held(Some(reservation).filter(|_| rules.fenced)))
        };
        let has_acted =
            job.act(rules, Verb::Release, |known| decide::release(known, now, &release));
        if has_acted {
            if !is_counted && rules.uncounted_ends {
                job.attempt -= 1;
            }
            let dies = before.state != Some(State::Dead) && job.state == Some(State::Dead);
            if !is_counted && dies && !before.has_expired_by(self.now + delay) {
                return Err(format!("job {number} dies by an attempt that does not count"));
            }
            let job = *job;
            Self::judge_hold(number, before, reservation)?;
            self.learn(server, job);
        }
        if answered || !has_acted {
            self.consumers[consumer] = Consumer::Idle;
        }
        Ok(())
    }
}
