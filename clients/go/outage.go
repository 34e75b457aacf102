package delayqueue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// outage logs one line when the server becomes unavailable for any request of a worker, and one
// when it answers again.
type outage struct {
	logger Logger
	url    string

	mu       sync.Mutex
	answered time.Time // last answer
	since    time.Time // zero if the server is available
}

// isOutage reports whether the error means that the server, or its store, is unavailable.
func isOutage(err error) bool {
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return !errors.Is(err, context.Canceled)
	}
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Status >= 500 && isRetryable(err)
}

// note takes the result of a request that was started at this time.
func (o *outage) note(started time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled):
	case !isOutage(err):
		o.answered = time.Now()
		if !o.since.IsZero() {
			o.logger.Printf("delayqueue: %s is available again, after %v", o.url, time.Since(o.since).Round(time.Millisecond))
			o.since = time.Time{}
		}
	case started.Before(o.answered):
		// The server has answered another request since.
	case o.since.IsZero():
		o.since = time.Now()
		o.logger.Printf("delayqueue: %s is unavailable; the worker repeats its requests until it answers: %v", o.url, err)
	}
}
