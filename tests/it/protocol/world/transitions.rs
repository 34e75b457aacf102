//! Calls to the store, each with what servers learn of it, and the promises to consumers.

use delay_queue::job::{After, Due, Event, State};

use super::{Consumer, Delivery, Job, LIFE, MAX_ATTEMPTS, Promise, Rules, Server, World};

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
        let Ok(state) = rules.table(None, Event::Put(due)) else { return };
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
        for job in &mut self.jobs {
            if job.has_expired_by(self.now) {
                job.state =
                    rules.table(job.state, Event::Expire { moves: false }).unwrap_or(job.state);
            }
            let then = match job.state {
                Some(State::Reserved) if job.has_expired_by(self.now) => After::Spent,
                Some(State::Reserved) if job.attempt >= MAX_ATTEMPTS => After::Spent,
                _ => After::Now,
            };
            let is_due = job.at <= self.now || !rules.judges_time;
            let has_deadline = matches!(job.state, Some(State::Delayed | State::Reserved));
            if is_due && has_deadline {
                job.state = rules.table(job.state, Event::Promote(then)).unwrap_or(job.state);
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
        let job = &mut self.jobs[number];
        if rules.pops_expire && job.state == Some(State::Ready) && job.has_expired_by(self.now) {
            job.state = rules.table(job.state, Event::Expire { moves: false }).unwrap_or(job.state);
        }
        let job = *job;
        let Ok(state) = rules.table(job.state, Event::Pop) else {
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

    pub(super) fn give_back(&mut self, rules: &Rules, server: usize) {
        let Some((number, reservation)) = self.servers[server].undelivered.take() else { return };
        let job = &mut self.jobs[number];
        if job.reservation != Some(reservation) {
            return;
        }
        if let Ok(state) = rules.table(job.state, Event::Unpop) {
            *job = Job { state, attempt: job.attempt - 1, reservation: None, ..*job };
            self.tell(server, false);
        }
    }

    /// Reschedules the first job to now, or gives it other contents.
    pub(super) fn change(&mut self, rules: &Rules, server: usize) {
        let job = &mut self.jobs[0];
        let Ok(state) = rules.table(job.state, Event::Reschedule(Due::Now)) else { return };
        let reservation = job.reservation.filter(|_| !rules.change_ends_hold);
        let (at, outdated) = (self.now, job.given);
        let expires_at = if job.expires_at == 0 { 0 } else { at + LIFE };
        *job = Job { state, at, not_before: at, reservation, outdated, expires_at, ..*job };
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

    pub(super) fn finish(
        &mut self,
        rules: &Rules,
        consumer: usize,
        answered: bool,
    ) -> Result<(), Promise> {
        let Consumer::Holds { job: number, reservation, .. } = self.consumers[consumer] else {
            return Ok(());
        };
        let has_acted = self.may_act(rules, number, reservation)?;
        if has_acted {
            let job = &mut self.jobs[number];
            if job.reservation != Some(reservation) && job.state == Some(State::Reserved) {
                return Err(format!("job {number} is finished by another, for its holder"));
            }
            job.state = rules.table(job.state, Event::Finish { kept: false }).unwrap_or(job.state);
            job.is_finished = true;
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
        let has_acted = self.may_act(rules, number, reservation)?;
        if has_acted {
            let job = &mut self.jobs[number];
            let at = self.now + delay;
            let may_be_last = is_counted || rules.uncounted_ends;
            let then = match delay {
                _ if job.has_expired_by(at) => After::Spent,
                _ if may_be_last && job.attempt >= MAX_ATTEMPTS => After::Spent,
                0 => After::Now,
                _ => After::Later,
            };
            if !is_counted && then == After::Spent && !job.has_expired_by(at) {
                return Err(format!("job {number} dies by an attempt that does not count"));
            }
            job.attempt -= u8::from(!is_counted);
            if let Ok(state) = rules.table(job.state, Event::Release(then)) {
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
