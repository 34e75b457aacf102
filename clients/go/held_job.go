package delayqueue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Causes of the end of a handler's context; see Cause.
var (
	// ErrReservationLost: the job was deleted, another consumer has it, or its TTR ended while the
	// server was unavailable. What the handler returns is ignored.
	ErrReservationLost = errors.New("delayqueue: the reservation of the job is lost")
	// ErrStopped: the worker stops, and the grace is over. If the handler returns an error, the job
	// is given back without counting the attempt.
	ErrStopped = errors.New("delayqueue: the worker stops")
)

type heldJobKey struct{}

// Cause returns why the context of a handler was cancelled: ErrReservationLost, ErrStopped, or else
// ctx.Err().
func Cause(ctx context.Context) error {
	if h, ok := ctx.Value(heldJobKey{}).(*heldJob); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.cause != nil {
			return h.cause
		}
	}
	return ctx.Err()
}

// heldJob is a job from its pop until its acknowledgement is answered. Touches extend its
// reservation meanwhile.
type heldJob struct {
	*run
	*poppedJob
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	timer    *time.Timer // next touch; nil if the job is only given back
	until    time.Time   // end of the TTR by the monotonic clock
	failures int         // failed touches in a row
	cause    error       // why the handler was cancelled
	ended    bool        // the handler has returned, or the worker no longer waits for it
	answered bool        // nothing is left to do for the job
}

// start starts the handler of a job.
func (r *run) start(job *poppedJob) {
	ttr := time.Duration(job.TTR)
	h := &heldJob{run: r, poppedJob: job, until: time.Now().Add(ttr)}
	h.ctx, h.cancel = context.WithCancel(context.WithValue(r.parent, heldJobKey{}, h))
	r.mu.Lock()
	r.held[h] = struct{}{}
	r.mu.Unlock()
	r.slots.add()
	r.running.add()
	h.mu.Lock()
	h.timer = time.AfterFunc(ttr/3, h.touch)
	h.mu.Unlock()
	go h.work()
}

// giveBack releases a job that arrived after the worker was stopped.
func (r *run) giveBack(job *poppedJob) {
	r.slots.add()
	go r.acknowledge(&heldJob{run: r, poppedJob: job, ended: true}, givenBack(0)).send()
}

// cancelWith cancels the handler, and reports false if it has returned or is cancelled already.
func (h *heldJob) cancelWith(cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.cause != nil {
		return false
	}
	h.cause = cause
	h.cancel()
	return true
}

// settled stops the touches: the acknowledgement is answered, or none is needed.
func (h *heldJob) settled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = true
	if h.timer != nil {
		h.timer.Stop()
	}
}
