package delayqueue

import (
	"math"
	"time"
)

const (
	defaultTTR         = time.Minute
	defaultMaxAttempts = 20
	deadRetention      = 14 * 24 * time.Hour
)

// fakeJob is a job of a Fake.
type fakeJob struct {
	StoredJob
	order     int       // number of its put
	keptUntil time.Time // end of the retention of a dead or finished job
}

// passTime makes the transitions that are due by the clock.
func (f *Fake) passTime() {
	for id, job := range f.jobs {
		switch job.State {
		case StateDelayed, StateReady:
			if job.ExpiresAt != nil && !job.ExpiresAt.After(f.now) {
				job.die("expired", *job.ExpiresAt)
			} else if !job.DueAt.After(f.now) {
				job.State = StateReady
			}
		}
		if (job.State == StateDead || job.State == StateFinished) && !job.keptUntil.After(f.now) {
			delete(f.jobs, id)
		}
	}
}

// pop reserves the job.
func (j *fakeJob) pop(now time.Time) *poppedJob {
	j.State = StateReserved
	j.Attempt++
	until := now.Add(j.TTR)
	j.ReservedUntil = &until
	j.History = append(j.History, Attempt{Attempt: j.Attempt, StartedAt: now})
	if len(j.History) > 10 {
		j.History = j.History[1:]
	}
	popped := &poppedJob{ID: j.ID, Topic: j.Topic, Body: j.Body, Attempt: j.Attempt, MaxAttempts: j.MaxAttempts,
		Priority: &j.Priority, DueAt: j.DueAt, CreatedAt: j.CreatedAt, TTR: seconds(j.TTR), ReservedUntil: until,
		Traceparent: j.Traceparent, Headers: j.Headers}
	if j.ExpiresAt != nil {
		popped.ExpiresAt = *j.ExpiresAt
	}
	return popped
}

// end applies the outcome of an attempt.
func (f *Fake) end(job *fakeJob, ended outcome) {
	now := f.now
	job.ReservedUntil = nil
	entry := &job.History[len(job.History)-1]
	entry.EndedAt, entry.Error = &now, ended.Error
	entry.Outcome = map[verb]string{finish: "finished", release: "released", bury: "buried"}[ended.verb]
	switch {
	case ended.verb == finish:
		job.finish("finished", now)
		job.Result = ended.Result
	case ended.verb == bury:
		job.die(ended.Error, now)
	case ended.CountAttempt != nil:
		counted := false
		entry.Counted = &counted
		job.Attempt--
		job.schedule(now, time.Duration(*ended.Delay))
	case job.MaxAttempts > 0 && job.Attempt >= int(job.MaxAttempts):
		job.die(ended.Error, now)
	default:
		job.Error = ended.Error
		job.schedule(now, job.Backoff.wait(job.Attempt))
	}
	f.passTime()
}

// schedule makes the job wait for its next attempt, unless it expires before.
func (j *fakeJob) schedule(now time.Time, delay time.Duration) {
	j.DueAt, j.State = now.Add(delay), StateDelayed
	if j.ExpiresAt != nil && !j.DueAt.Before(*j.ExpiresAt) {
		j.die("expired", now)
	}
}

func (j *fakeJob) die(reason string, at time.Time) {
	j.State, j.Error, j.DiedAt = StateDead, reason, &at
	j.keptUntil = at.Add(deadRetention)
}

// finish keeps the job for its retention, which may be none.
func (j *fakeJob) finish(outcome string, at time.Time) {
	j.State, j.Outcome, j.FinishedAt, j.Body = StateFinished, outcome, &at, nil
	j.keptUntil = at.Add(j.FinishedRetention)
}

// wait returns the wait after an attempt, without jitter.
func (b *Backoff) wait(attempt int) time.Duration {
	switch {
	case b == nil:
		return 0
	case b.exponential != nil:
		factor := b.exponential.Factor
		if factor == 0 {
			factor = 2
		}
		wait := float64(b.exponential.Initial) * math.Pow(factor, float64(attempt-1))
		if wait > float64(b.exponential.Max) {
			return time.Duration(b.exponential.Max)
		}
		return time.Duration(wait)
	case len(b.list) == 0:
		return 0
	case attempt > len(b.list):
		return time.Duration(b.list[len(b.list)-1])
	}
	return time.Duration(b.list[attempt-1])
}
