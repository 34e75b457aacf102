package delayqueue

import (
	"context"
	"time"
)

// PutResult is the answer to a put.
type PutResult struct {
	ID    string    `json:"id"`
	Topic string    `json:"topic"`
	State string    `json:"state"` // "delayed" or "ready" for a new job, any state for one that was kept
	DueAt time.Time `json:"due_at"`
}

// Put puts a job with this body, which is encoded with encoding/json.
//
// The put is retried for 30 s (WithRetryFor) if the server is overloaded or unavailable, or if its
// answer was lost. Since the job has an id, this makes no second job while the first one exists. If
// a consumer finishes the job before the retry arrives, the retry puts it again, unless the job has
// a finished retention (WithFinishedRetention) that is longer than the retries.
//
// With an id of your own and Reject, a retry after a lost answer is sent with Keep. It succeeds if a
// job with this id and topic exists, which may also be one that was there before.
//
// Concurrent calls share requests: the puts that arrive while a request of Put is under way go
// together in the next one, and each call returns its own result or error. If the context of a call
// ends while its put waits, the put is not sent. If it ends while a shared request is under way, the
// request goes on, and the job may be put. A shared request has no values of the callers' contexts.
func (q *Queue) Put(ctx context.Context, topic string, body any, options ...PutOption) (*PutResult, error) {
	p := Put{Topic: topic, Body: body}
	for _, option := range options {
		option(&p)
	}
	r, err := p.request()
	if err != nil {
		return nil, err
	}
	var result PutResult
	err = retry(ctx, q.retryFor, func(unknown bool) error {
		body, err := encode(r.repeated(unknown))
		if err != nil {
			return &UsageError{Field: "put", Detail: err.Error()}
		}
		return q.sendPut(ctx, body, &result)
	})
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// repeated returns the put to send after an attempt whose result is unknown: it finds the job of
// that attempt instead of being refused because of it.
func (r *putRequest) repeated(unknown bool) *putRequest {
	if !unknown || (r.OnConflict != "" && r.OnConflict != Reject) {
		return r
	}
	again := *r
	again.OnConflict = Keep
	return &again
}

// PutManyResult is the result of one put of PutMany: Err is nil if it succeeded.
type PutManyResult struct {
	PutResult
	Err error
}

// PutMany puts the jobs in batches of up to 1,000. Each succeeds or fails on its own, and is retried
// like a single Put. The results are in the order of the puts.
func (q *Queue) PutMany(ctx context.Context, puts []Put) []PutManyResult {
	results := make([]PutManyResult, len(puts))
	var pending []*pendingPut
	for i := range puts {
		r, err := puts[i].request()
		if err != nil {
			results[i].Err = err
			continue
		}
		pending = append(pending, &pendingPut{putRequest: r, result: &results[i]})
	}
	// The error is that of the puts that are still pending, whose results have it too.
	_ = retry(ctx, q.retryFor, func(bool) error {
		var err error
		pending, err = q.putPending(ctx, pending)
		return err
	})
	for i := range results {
		if e := results[i].Err; e != nil {
			results[i].PutResult = PutResult{}
		}
	}
	return results
}

// pendingPut is a put of a batch that has no final result yet.
type pendingPut struct {
	*putRequest
	unknown bool // an earlier attempt may have been applied
	result  *PutManyResult
}

// settle notes the result of an attempt, and reports whether it is final.
func (p *pendingPut) settle(err error) bool {
	p.result.Err = nil
	if err == nil {
		return true
	}
	p.result.Err = withApplied(err, p.unknown)
	p.unknown = p.unknown || appliedOf(err) == AppliedUnknown
	return !isRetryable(err)
}

// putPending makes one attempt for each pending put. It returns those to repeat, and an error of
// one of them.
func (q *Queue) putPending(ctx context.Context, pending []*pendingPut) ([]*pendingPut, error) {
	var again []*pendingPut
	var failure error
	for len(pending) > 0 {
		body, n, err := encodeBatch(len(pending), maxPutBytes, func(i int) any {
			return pending[i].repeated(pending[i].unknown)
		})
		if err != nil {
			return nil, &UsageError{Field: "puts", Detail: err.Error()}
		}
		answers, err := q.sendBatch(ctx, "/batch/jobs", body, n)
		for i, p := range pending[:n] {
			itemErr := err
			if err == nil {
				itemErr = answers[i].into(&p.result.PutResult)
			}
			if !p.settle(itemErr) {
				again, failure = append(again, p), p.result.Err
			}
		}
		pending = pending[n:]
	}
	return again, failure
}
