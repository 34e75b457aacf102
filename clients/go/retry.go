package delayqueue

import (
	"context"
	"errors"
	"math/rand"
	"net/http"
	"sync"
	"time"
)

const (
	firstRetryWait = 100 * time.Millisecond
	maxRetryWait   = 5 * time.Second
)

// jitter is a source of random numbers of its own: in Go 1.19, the global one starts from the same
// seed in each process, and clients that restart together would retry together.
var jitter = struct {
	sync.Mutex
	*rand.Rand
}{Rand: rand.New(rand.NewSource(time.Now().UnixNano()))}

// retryWait returns the wait before retry n, counted from 0: full jitter below 100 ms that doubles
// to 5 s, and never below the Retry-After of the error.
func retryWait(n int, err error) time.Duration {
	limit := maxRetryWait
	if n < 6 {
		limit = firstRetryWait << n
	}
	jitter.Lock()
	wait := time.Duration(jitter.Int63n(int64(limit)) + 1)
	jitter.Unlock()
	var refused *RefusedError
	var unavailable *UnavailableError
	if errors.As(err, &refused) && refused.RetryAfter > wait {
		return refused.RetryAfter
	}
	if errors.As(err, &unavailable) && unavailable.retryAfter > wait {
		return unavailable.retryAfter
	}
	return wait
}

// isRetryable reports whether the same request may succeed later.
func isRetryable(err error) bool {
	var unavailable *UnavailableError
	var refused *RefusedError
	switch {
	case errors.As(err, &unavailable):
		return true
	case !errors.As(err, &refused):
		return false
	case refused.Status == http.StatusTooManyRequests:
		return refused.Code != "topic_full"
	case refused.Status == http.StatusRequestTimeout || refused.Status == http.StatusServiceUnavailable:
		return true
	}
	return refused.Status >= 500 && refused.Applied == AppliedUnknown
}

// appliedOf returns whether the failed request may have been applied.
func appliedOf(err error) string {
	var refused *RefusedError
	var unavailable *UnavailableError
	switch {
	case errors.As(err, &refused):
		return refused.Applied
	case errors.As(err, &unavailable):
		return unavailable.Applied
	}
	return AppliedNo
}

// pause waits, and reports false if the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retry calls attempt until it succeeds, fails for good, or the limit has passed since the call, and
// then returns the last error. attempt is told whether an earlier attempt may have been applied.
func retry(ctx context.Context, limit time.Duration, attempt func(unknown bool) error) error {
	deadline := time.Now().Add(limit)
	unknown := false
	for n := 0; ; n++ {
		err := attempt(unknown)
		if err == nil || !isRetryable(err) {
			return err
		}
		unknown = unknown || appliedOf(err) == AppliedUnknown
		wait := retryWait(n, err)
		if ctx.Err() != nil || time.Now().Add(wait).After(deadline) || !pause(ctx, wait) {
			return withApplied(err, unknown)
		}
	}
}

// withApplied returns the error of the last attempt. It says "unknown" if an earlier attempt may
// have been applied.
func withApplied(err error, unknown bool) error {
	if !unknown {
		return err
	}
	switch e := err.(type) {
	case *RefusedError:
		changed := *e
		changed.Applied = AppliedUnknown
		return &changed
	case *UnavailableError:
		changed := *e
		changed.Applied = AppliedUnknown
		return &changed
	}
	return err
}
