package delayqueue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// run is the state of one call of Worker.Run.
type run struct {
	*Worker
	popper *popper
	outage *outage

	// parent is that of the contexts of all handlers.
	parent context.Context
	// requests is the context of touches and acknowledgements. It outlives the context of Run.
	requests       context.Context
	cancelRequests context.CancelFunc

	mu   sync.Mutex
	held map[*heldJob]struct{} // jobs whose handlers run

	slots         *tally // jobs from their pop until their acknowledgement is answered
	running       *tally // handlers
	acknowledgers map[verb]*acknowledger
}

func newRun(ctx context.Context, w *Worker) *run {
	r := &run{Worker: w, held: map[*heldJob]struct{}{}, slots: newTally(), running: newTally(),
		parent: valuesOf{context.Background(), ctx}, acknowledgers: map[verb]*acknowledger{},
		outage: &outage{logger: w.logger, url: w.queue.url}}
	r.requests, r.cancelRequests = context.WithCancel(context.Background())
	r.popper = newPopper(w)
	for _, v := range []verb{finish, release, bury} {
		r.acknowledgers[v] = &acknowledger{run: r, verb: v, limit: maxBatchJobs}
	}
	return r
}

func (r *run) close() {
	r.popper.close()
	r.cancelRequests()
}

// popUntilStopped pops jobs and starts their handlers until the context is cancelled.
func (r *run) popUntilStopped(ctx context.Context) error {
	returned := make(chan struct{})
	defer close(returned)
	go func() {
		select {
		case <-ctx.Done():
			r.popper.stop()
		case <-returned:
		}
	}()
	succeeded, failures := false, 0
	logged := map[string]bool{} // refusals since the last success
	for {
		if !r.slots.waitBelow(ctx.Done(), r.concurrency) || ctx.Err() != nil {
			return nil
		}
		started := time.Now()
		jobs, err := r.popper.pop(r.freeSlots())
		if ctx.Err() != nil {
			// The answer was on its way when the pop was aborted.
			for _, job := range jobs {
				r.giveBack(job)
			}
			return nil
		}
		r.outage.note(started, err)
		if err == nil {
			succeeded, failures, logged = true, 0, map[string]bool{}
			for _, job := range jobs {
				r.start(job)
			}
			continue
		}
		if !succeeded && !isRetryable(err) {
			return r.explain(err)
		}
		if text := err.Error(); !isOutage(err) && !logged[text] {
			logged[text] = true
			r.logger.Printf("delayqueue: error: a pop is refused; the worker repeats it until it succeeds: %v", err)
		}
		pause(ctx, retryWait(failures, err))
		failures++
	}
}

// maxPopCount is the largest number of jobs that the server returns for a pop.
const maxPopCount = 100

func (r *run) freeSlots() int {
	free := r.concurrency - r.slots.count()
	if free > maxPopCount {
		return maxPopCount
	}
	return free
}

// explain adds to a refused first pop what to do.
func (r *run) explain(err error) error {
	advice := "check the URL " + r.queue.url + " and the topics"
	var refused *RefusedError
	if errors.As(err, &refused) {
		switch refused.Status {
		case http.StatusUnauthorized:
			advice = "give the queue a valid token with WithToken"
		case http.StatusForbidden:
			advice = "use a token that has the scope pop for all topics of the worker"
		}
	}
	return fmt.Errorf("%w; the worker cannot start: %s", err, advice)
}

// valuesOf is a context with the values of another one, but not with its end.
type valuesOf struct {
	context.Context
	values context.Context
}

func (c valuesOf) Value(key any) any { return c.values.Value(key) }
