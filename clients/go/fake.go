package delayqueue

import (
	"context"
	"sort"
	"sync"
	"time"
)

// Fake is a queue in memory for tests, with a clock that only the test moves. The code under test
// gets its Queue, whose methods behave as with a server. The handlers of a Worker run in RunDue.
//
// Jitter is left out of the backoff. The fake has no pushes, no limits, and no dead_to.
type Fake struct {
	mu       sync.Mutex
	now      time.Time
	jobs     map[string]*fakeJob
	settings map[string]TopicSettings
	puts     int
	queue    *Queue
}

// NewFake returns an empty queue whose clock shows this time.
func NewFake(now time.Time) *Fake {
	f := &Fake{now: now, jobs: map[string]*fakeJob{}, settings: map[string]TopicSettings{}}
	queue, err := New("http://fake.invalid", WithTransport(fakeTransport{f}), WithRetryFor(0))
	if err != nil {
		panic(err) // the address is valid
	}
	queue.isFake = true
	f.queue = queue
	return f
}

// Queue returns the queue for the code under test. Its Wait returns at once.
func (f *Fake) Queue() *Queue { return f.queue }

// Now returns the time that the clock shows.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Topics returns the topics that have jobs, sorted.
func (f *Fake) Topics() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passTime()
	known := map[string]bool{}
	topics := []string{}
	for _, job := range f.jobs {
		if !known[job.Topic] {
			known[job.Topic] = true
			topics = append(topics, job.Topic)
		}
	}
	sort.Strings(topics)
	return topics
}

// Advance moves the clock. It runs no jobs.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.passTime()
}

// FakeRun is an attempt that RunDue made.
type FakeRun struct {
	ID      string
	Topic   string
	Attempt int
	Outcome string // "finished", "released" (an error), "buried" or "snoozed"
	Error   string // text of the error, if the handler returned one
}

// RunDue calls the handlers of the worker for each job of its topics that is due, one after another,
// by priority, then due time, and returns how the attempts ended. A job runs once in a call, also if
// it is due again at once; one that a handler puts runs in the same call if it is due.
func (f *Fake) RunDue(ctx context.Context, w *Worker) []FakeRun {
	var runs []FakeRun
	seen := map[*fakeJob]bool{}
	for {
		f.mu.Lock()
		job := f.nextReady(w, seen)
		if job == nil {
			f.mu.Unlock()
			return runs
		}
		seen[job] = true
		popped := job.pop(f.now)
		f.mu.Unlock()

		run := FakeRun{ID: popped.ID, Topic: popped.Topic, Attempt: popped.Attempt}
		func() {
			ended := withoutReturn
			// Deferred, since t.FailNow in a handler ends the goroutine of the test.
			defer func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.end(job, ended)
			}()
			ended = w.invoke(ctx, popped)
			run.Outcome, run.Error = ended.name(), ended.Error
		}()
		runs = append(runs, run)
	}
}

func (o *outcome) name() string {
	switch {
	case o.verb == finish:
		return "finished"
	case o.verb == bury:
		return "buried"
	case o.CountAttempt != nil:
		return "snoozed"
	}
	return "released"
}

// nextReady returns the ready job that a pop of the worker would return, or nil.
func (f *Fake) nextReady(w *Worker, seen map[*fakeJob]bool) *fakeJob {
	f.passTime()
	var ready []*fakeJob
	for _, job := range f.jobs {
		if _, ok := w.handlers[job.Topic]; ok && job.State == StateReady && !seen[job] {
			ready = append(ready, job)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	sort.Slice(ready, func(i, j int) bool {
		a, b := ready[i], ready[j]
		switch {
		case a.Priority != b.Priority:
			return a.Priority > b.Priority
		case !a.DueAt.Equal(b.DueAt):
			return a.DueAt.Before(b.DueAt)
		}
		return a.order < b.order
	})
	return ready[0]
}
