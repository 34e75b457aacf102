package delayqueue

import "time"

const (
	// Time that a handler gets to return after it was cancelled at the end of the grace.
	cancelTimeout = 2 * time.Second
	// Time after the grace in which acknowledgements are repeated.
	acknowledgeTimeout = 5 * time.Second
)

// stop gives running handlers the grace, cancels the others, gives their jobs back, and sends all
// outstanding acknowledgements.
func (r *run) stop() {
	deadline := time.Now().Add(r.grace + acknowledgeTimeout)
	if !waitZero(r.running, r.grace) {
		for _, h := range r.heldJobs() {
			h.cancelWith(ErrStopped)
		}
		if !waitZero(r.running, cancelTimeout) {
			for _, h := range r.heldJobs() {
				h.abandon()
			}
		}
	}
	if !waitZero(r.slots, time.Until(deadline)) {
		// The acknowledgers log the jobs and give up.
		r.cancelRequests()
		r.slots.waitBelow(nil, 1)
	}
}

// waitZero waits up to limit until nothing is under way.
func waitZero(t *tally, limit time.Duration) bool {
	end := make(chan struct{})
	timer := time.AfterFunc(limit, func() { close(end) })
	defer timer.Stop()
	return t.waitBelow(end, 1)
}

func (r *run) heldJobs() []*heldJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make([]*heldJob, 0, len(r.held))
	for h := range r.held {
		held = append(held, h)
	}
	return held
}
