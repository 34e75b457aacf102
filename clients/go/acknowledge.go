package delayqueue

import (
	"sync"
	"time"
)

// acknowledgement is an outcome to send for a job.
type acknowledgement struct {
	ID          string `json:"id"`
	Reservation string `json:"reservation"`
	outcome
	job     *heldJob
	unknown bool // an earlier attempt may have been applied
}

// acknowledger sends the outcomes of one verb in batches: all that came while the previous request
// was under way. Without load, an outcome is sent at once.
type acknowledger struct {
	*run
	verb verb

	mu      sync.Mutex
	waiting []*acknowledgement
	sending bool
	limit   int // number of jobs in a request
}

// acknowledge queues how an attempt ended. It returns the acknowledger if the caller must run its
// send, since no other goroutine does, else nil.
func (r *run) acknowledge(job *heldJob, ended outcome) *acknowledger {
	a := r.acknowledgers[ended.verb]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, &acknowledgement{ID: job.ID, Reservation: job.Reservation, outcome: ended, job: job})
	if a.sending {
		return nil
	}
	a.sending = true
	return a
}

// send sends batches until nothing is waiting. It does nothing if the acknowledger is nil.
func (a *acknowledger) send() {
	if a == nil {
		return
	}
	failures := 0
	for {
		batch := a.next()
		if batch == nil {
			return
		}
		again, failure := a.attempt(batch)
		if len(again) > 0 {
			a.mu.Lock()
			a.waiting = append(again, a.waiting...)
			a.mu.Unlock()
		}
		if failure == nil {
			failures = 0
			continue
		}
		if !pause(a.requests, retryWait(failures, failure)) {
			a.giveUp(failure)
		}
		failures++
	}
}

// next takes all outcomes that wait, or ends the sending.
func (a *acknowledger) next() []*acknowledgement {
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := a.waiting
	a.waiting = nil
	a.sending = len(batch) > 0
	return batch
}

// attempt sends one request with as many of the outcomes as it takes. It returns the others and
// those to repeat, and an error if it should wait before.
func (a *acknowledger) attempt(batch []*acknowledgement) ([]*acknowledgement, error) {
	size := len(batch)
	if size > a.limit {
		size = a.limit
	}
	body, n, err := encodeBatch(size, maxAcknowledgeBytes, func(i int) any { return batch[i] })
	if err != nil {
		panic("delayqueue: an outcome is always JSON: " + err.Error())
	}
	started := time.Now()
	answers, err := a.queue.sendBatch(a.requests, "/batch/"+string(a.verb), body, n)
	a.outage.note(started, err)
	if isTooLarge(err) && n > 1 {
		a.limit = (n + 1) / 2
		return batch, nil
	}
	var again []*acknowledgement
	var failure error
	settled := 0
	for i, item := range batch[:n] {
		itemErr := err
		if err == nil {
			itemErr = answers[i].into(nil)
		}
		repeat, wait := a.settle(item, itemErr)
		if repeat {
			again = append(again, item)
		} else {
			item.job.settled()
			settled++
		}
		if wait {
			failure = itemErr
		}
	}
	a.slots.done(settled)
	return append(again, batch[n:]...), failure
}

// giveUp logs the outcomes that the worker could not send before it ended.
func (a *acknowledger) giveUp(failure error) {
	for _, item := range a.next() {
		a.logger.Printf("delayqueue: warning: job %s of topic %s: its %s could not be sent before the worker ended, so "+
			"the job comes back after its TTR: %v", item.ID, item.job.Topic, a.verb, failure)
		item.job.settled()
		a.slots.done(1)
	}
}
