package delayqueue

import (
	"fmt"
	"time"
)

// refuse returns a problem that changed nothing.
func refuse(status int, code, field, detail string) *problem {
	return &problem{Status: status, Code: code, Field: field, Detail: detail, Applied: AppliedNo}
}

// put puts a job and returns the status of the answer.
func (f *Fake) put(r *putRequest) (int, *PutResult, *problem) {
	f.passTime()
	switch {
	case r.Topic == "":
		return 0, nil, refuse(422, "invalid_field", "topic", "`topic` is missing")
	case r.Delay < 0:
		return 0, nil, refuse(422, "invalid_field", "delay", "`delay` must not be negative")
	case r.Delay != 0 && r.DueAt != nil:
		return 0, nil, refuse(422, "invalid_field", "due_at", "set `delay` or `due_at`, not both")
	case r.Priority != nil && (*r.Priority < 0 || *r.Priority > 9):
		return 0, nil, refuse(422, "invalid_field", "priority", fmt.Sprintf("`priority` is %d, must be 0 to 9", *r.Priority))
	}
	status := 201
	if existing, ok := f.jobs[r.ID]; ok {
		switch {
		case (r.OnConflict != Keep && r.OnConflict != Replace) || existing.Topic != r.Topic:
			p := refuse(409, "job_exists", "", fmt.Sprintf("a %s job of the topic %q has this `id` already",
				existing.State, existing.Topic))
			p.State, p.Topic = existing.State, existing.Topic
			return 0, nil, p
		case r.OnConflict == Keep:
			return 200, existing.putResult(), nil
		case existing.State == StateReserved:
			return 0, nil, refuse(409, "job_reserved", "", "a consumer holds the job")
		case existing.State != StateFinished:
			status = 200
		}
	}
	job := f.newJob(r)
	f.jobs[job.ID] = job
	f.passTime()
	return status, job.putResult(), nil
}

func (j *fakeJob) putResult() *PutResult {
	return &PutResult{ID: j.ID, Topic: j.Topic, State: j.State, DueAt: j.DueAt}
}

// newJob returns a job with the fields of the put, else of its topic, else of the server.
func (f *Fake) newJob(r *putRequest) *fakeJob {
	defaults := f.settings[r.Topic]
	f.puts++
	job := &fakeJob{order: f.puts, StoredJob: StoredJob{ID: r.ID, Topic: r.Topic, Body: r.Body, Headers: r.Headers,
		Traceparent: r.Traceparent, CreatedAt: f.now, DueAt: f.now.Add(time.Duration(r.Delay)), State: StateDelayed,
		History: []Attempt{}, Priority: defaultPriority, TTR: defaultTTR, MaxAttempts: defaultMaxAttempts}}
	if r.DueAt != nil && r.DueAt.After(f.now) {
		job.DueAt = *r.DueAt
	}
	choose(&job.TTR, (*time.Duration)(r.TTR), defaults.TTR)
	choose(&job.Priority, r.Priority, defaults.Priority)
	choose(&job.FinishedRetention, (*time.Duration)(r.FinishedRetention), defaults.FinishedRetention)
	choose(&job.ExpiresAfter, (*time.Duration)(r.ExpiresAfter), defaults.ExpiresAfter)
	job.Backoff = r.Backoff
	if job.Backoff == nil {
		job.Backoff = defaults.Backoff
	}
	if job.Backoff != nil && job.Backoff.exponential == nil {
		job.MaxAttempts = uint32(len(job.Backoff.list)) + 1
	}
	choose(&job.MaxAttempts, r.MaxAttempts, defaults.MaxAttempts)
	if job.ExpiresAfter > 0 {
		expires := job.DueAt.Add(job.ExpiresAfter)
		job.ExpiresAt = &expires
	}
	return job
}

// choose sets the target to the first value that is given.
func choose[T any](target *T, values ...*T) {
	for _, value := range values {
		if value != nil {
			*target = *value
			return
		}
	}
}

// cancel deletes the job if it waits.
func (f *Fake) cancel(id string, remember time.Duration) (*CancelResult, *problem) {
	f.passTime()
	job, ok := f.jobs[id]
	if !ok {
		return nil, refuse(404, "job_not_found", "", fmt.Sprintf("no job has the id %q", id))
	}
	state := job.State
	if state != StateDelayed && state != StateReady {
		p := refuse(409, "wrong_state", "", fmt.Sprintf("the job is %s, not delayed or ready", state))
		p.State = state
		return nil, p
	}
	job.FinishedRetention = remember
	job.finish("deleted", f.now)
	f.passTime()
	return &CancelResult{ID: id, State: state}, nil
}
