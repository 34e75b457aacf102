package delayqueue

import (
	"context"
	"fmt"
	"runtime/debug"
)

// withoutReturn is the outcome of a handler that neither returns nor panics with a value.
var withoutReturn = outcome{verb: release, Error: "the handler did not return: it called runtime.Goexit or panic(nil)"}

// work calls the handler and acknowledges its outcome, whatever the handler does.
func (h *heldJob) work() {
	ended := withoutReturn // what is left after runtime.Goexit
	defer func() { h.end(ended) }()
	ended = h.invoke(h.ctx, h.poppedJob)
}

// invoke calls the handler of the job's topic. A panic releases the job.
func (w *Worker) invoke(ctx context.Context, job *poppedJob) (ended outcome) {
	ended = withoutReturn
	defer func() {
		// recover also stops a panic(nil), of which it returns nothing.
		value := recover()
		if value == nil {
			return
		}
		w.logger.Printf("delayqueue: error: the handler of job %s of topic %s panicked: %v\n%s",
			job.ID, job.Topic, value, debug.Stack())
		ended = outcomeOf(fmt.Errorf("panic: %v", value))
	}()
	return w.handlers[job.Topic](ctx, job)
}

// end acknowledges the outcome of the handler, unless the job is no longer this worker's.
func (h *heldJob) end(ended outcome) {
	h.mu.Lock()
	cause, abandoned := h.cause, h.ended
	h.ended = true
	h.mu.Unlock()
	h.cancel()
	h.run.mu.Lock()
	delete(h.held, h)
	h.run.mu.Unlock()
	if cause == ErrStopped && ended.verb == release && ended.CountAttempt == nil {
		// The handler failed because it was cancelled.
		ended = givenBack(0)
	}
	var sender *acknowledger
	switch {
	case abandoned:
	case cause == ErrReservationLost:
		h.settled()
		h.slots.done(1)
	default:
		sender = h.acknowledge(h, ended)
	}
	h.running.done(1)
	// In this goroutine, which has nothing else to do: that saves starting another one.
	sender.send()
}

// abandon gives the job back although its handler has not returned.
func (h *heldJob) abandon() {
	h.mu.Lock()
	cause, ended := h.cause, h.ended
	h.ended = true
	h.mu.Unlock()
	if ended {
		return
	}
	if cause == ErrReservationLost {
		h.settled()
		h.slots.done(1)
		return
	}
	h.logger.Printf("delayqueue: warning: the handler of job %s of topic %s ignores its context; the job is given "+
		"back while it runs", h.ID, h.Topic)
	go h.acknowledge(h, givenBack(0)).send()
}
