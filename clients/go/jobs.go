package delayqueue

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Get returns a job. Without one, errors.Is(err, ErrNotFound) is true.
func (q *Queue) Get(ctx context.Context, id string) (*StoredJob, error) {
	return q.getWaiting(ctx, id, 0)
}

// Wait waits up to limit until the job is finished or dead, and returns it. When limit is over, it
// returns the job in the state that it has then; see StoredJob.IsEnded. A job that is removed when
// it is finished, because it has no finished retention, is ErrNotFound then.
func (q *Queue) Wait(ctx context.Context, id string, limit time.Duration) (*StoredJob, error) {
	deadline := time.Now().Add(limit)
	for {
		wait := time.Until(deadline)
		if wait > maxWait {
			wait = maxWait
		}
		started := time.Now()
		job, err := q.getWaiting(ctx, id, wait)
		if err != nil || job.IsEnded() || time.Until(deadline) <= 0 || q.isFake {
			return job, err
		}
		// A server that stops answers at once.
		if time.Since(started) < wait/2 && !pause(ctx, retryWait(0, nil)) {
			return job, nil
		}
	}
}

// getWaiting makes one request that waits, and retries it.
func (q *Queue) getWaiting(ctx context.Context, id string, wait time.Duration) (*StoredJob, error) {
	path := "/jobs/" + url.PathEscape(id)
	if wait > 0 {
		path += "?wait=" + parameter(wait)
	} else {
		wait = 0
	}
	var job StoredJob
	err := retry(ctx, q.retryFor+wait, func(bool) error {
		return q.send(ctx, request{http.MethodGet, path, nil, wait + answerTimeout}, &job)
	})
	if err != nil {
		return nil, err
	}
	return &job, nil
}

// CancelResult is the answer to a cancel: the job and the state that it was in.
type CancelResult struct {
	ID    string `json:"id"`
	State string `json:"state"` // empty if it is unknown
}

// CancelOption is an option of Cancel.
type CancelOption func(url.Values)

// WithRemember keeps the id taken for up to 30 days after the cancel, so that a retry of the put
// that arrives late does not bring the job back.
func WithRemember(d time.Duration) CancelOption {
	return func(query url.Values) { query.Set("remember", parameter(d)) }
}

// Cancel deletes a job that is delayed or ready. A job that a consumer holds, or that is dead or
// finished, stays as it is: errors.Is(err, ErrWrongState) is true, and State of the RefusedError
// says why. Without a job, errors.Is(err, ErrNotFound) is true.
//
// If an answer was lost and the retry finds no job, or with WithRemember a finished one, the cancel
// counts as done, with an empty State. A consumer may have finished the job instead.
func (q *Queue) Cancel(ctx context.Context, id string, options ...CancelOption) (*CancelResult, error) {
	query := url.Values{"state": {"delayed,ready"}}
	for _, option := range options {
		option(query)
	}
	path := "/jobs/" + url.PathEscape(id) + "?" + query.Encode()
	var result CancelResult
	err := retry(ctx, q.retryFor, func(unknown bool) error {
		err := q.send(ctx, request{http.MethodDelete, path, nil, answerTimeout}, &result)
		var refused *RefusedError
		if !unknown || !errors.As(err, &refused) {
			return err
		}
		isRemembered := query.Has("remember") && refused.Is(ErrWrongState) && refused.State == StateFinished
		if !refused.Is(ErrNotFound) && !isRemembered {
			return err
		}
		result = CancelResult{ID: id}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &result, nil
}
