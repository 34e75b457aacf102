package delayqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Maximum bytes of a batch of gathered puts, unless it has one put. Proxies such as nginx refuse more than 1 MiB by default.
const maxGatheredBytes = 1 << 20

// gatherer sends the single puts of a queue, one request at a time. A put that arrives while no
// request is under way is sent at once. The others wait, and go together when that request returns.
// A goroutine runs only while puts that waited are under way.
type gatherer struct {
	mu      sync.Mutex
	sending bool
	waiting []*gatheredPut
}

// gatheredPut is an attempt to put a job that waits for a request, or is part of one.
type gatheredPut struct {
	ctx    context.Context
	body   []byte // the put as JSON
	taken  bool   // its request is under way, or has returned
	answer chan gatheredAnswer
}

// gatheredAnswer is the answer to a put: a JSON text, or an error.
type gatheredAnswer struct {
	place      int // index in the batch
	text       json.RawMessage
	retryAfter time.Duration // of the whole answer
	err        error
}

// sendPut makes one attempt to put a job, with others in a request if one is under way already. A
// put that ends with its context while it waits is not sent.
func (q *Queue) sendPut(ctx context.Context, body []byte, result *PutResult) error {
	p := q.gatherer.join(ctx, body)
	if p == nil {
		defer q.sendWaiting()
		return q.send(ctx, putJob(body), result)
	}
	select {
	case answer := <-p.answer:
		return answer.into(result, q.url)
	case <-ctx.Done():
		return &UnavailableError{URL: q.url, Applied: q.gatherer.leave(p), Err: ctx.Err()}
	}
}

func putJob(body []byte) request {
	return request{http.MethodPost, "/jobs", body, answerTimeout}
}

// join returns nil if the caller must send its put alone and then call sendWaiting, or else the put
// that waits for its answer.
func (g *gatherer) join(ctx context.Context, body []byte) *gatheredPut {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.sending {
		g.sending = true
		return nil
	}
	p := &gatheredPut{ctx: ctx, body: body, answer: make(chan gatheredAnswer, 1)}
	g.waiting = append(g.waiting, p)
	return p
}

// leave returns whether the put, whose context has ended, may have been applied. take drops it if
// it still waits.
func (g *gatherer) leave(p *gatheredPut) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.taken {
		return AppliedUnknown
	}
	return AppliedNo
}

// take returns the puts of the next request, in the order of their arrival. If none waits, it
// returns nil, and the next put is sent at once.
func (g *gatherer) take() []*gatheredPut {
	g.mu.Lock()
	defer g.mu.Unlock()
	var batch []*gatheredPut
	bytes, seen := len(`{"jobs":[]}`), 0
	for ; seen < len(g.waiting); seen++ {
		p := g.waiting[seen]
		if p.ctx.Err() != nil {
			continue
		}
		bytes += len(p.body) + len(",")
		if len(batch) == maxBatchJobs || len(batch) > 0 && bytes > maxGatheredBytes {
			break
		}
		p.taken = true
		batch = append(batch, p)
	}
	// A copy, which does not keep the puts that were taken.
	g.waiting = append([]*gatheredPut(nil), g.waiting[seen:]...)
	g.sending = len(batch) > 0
	return batch
}

// sendWaiting sends the puts that wait, without the caller waiting for it.
func (q *Queue) sendWaiting() {
	batch := q.gatherer.take()
	if batch == nil {
		return
	}
	go func() {
		for ; batch != nil; batch = q.gatherer.take() {
			if len(batch) == 1 || !q.sendTogether(batch) {
				q.sendOneByOne(batch)
			}
		}
	}()
}

// sendTogether sends the puts in one request. It returns false if the server refused the request
// for a reason that may concern one put or the size, so that each put needs an answer of its own.
func (q *Queue) sendTogether(batch []*gatheredPut) bool {
	bodies := make([][]byte, len(batch))
	for i, p := range batch {
		bodies[i] = p.body
	}
	body := append([]byte(`{"jobs":[`), bytes.Join(bodies, []byte{','})...)
	var answer struct {
		Results []json.RawMessage `json:"results"`
	}
	r := request{http.MethodPost, "/batch/jobs", append(body, "]}"...), answerTimeout}
	// Not the context of a caller: the request goes on for the others.
	header, err := q.exchange(context.Background(), r, &answer)
	if err == nil && len(answer.Results) != len(batch) {
		err = wrongNumber(q.url, len(answer.Results), len(batch))
	}
	if isRefusedAsWhole(err) {
		return false
	}
	after := retryAfter(header.Get("Retry-After"))
	for i, p := range batch {
		result := gatheredAnswer{place: i, retryAfter: after, err: err}
		if err == nil {
			result.text = answer.Results[i]
		}
		p.answer <- result
	}
	return true
}

func (q *Queue) sendOneByOne(batch []*gatheredPut) {
	for _, p := range batch {
		var answer gatheredAnswer
		answer.err = q.send(p.ctx, putJob(p.body), &answer.text)
		p.answer <- answer
	}
}

// isRefusedAsWhole reports whether the error may be that of one put of a batch, or of its size.
// Refusals of the token, and of requests that are too frequent or too slow, concern all puts.
func isRefusedAsWhole(err error) bool {
	var refused *RefusedError
	var protocol *ProtocolError
	status := 0
	switch {
	case errors.As(err, &refused):
		status = refused.Status
	case errors.As(err, &protocol):
		status = protocol.Status
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status >= 300 && status <= 499
}

// into decodes a success into the result, and returns any other answer as the error that the put
// alone would have got.
func (a *gatheredAnswer) into(result *PutResult, url string) error {
	if a.err != nil {
		return a.err
	}
	// The fields of a success and of a problem.
	var answer struct {
		problem
		ID    string    `json:"id"`
		DueAt time.Time `json:"due_at"`
	}
	if err := json.Unmarshal(a.text, &answer); err != nil {
		return &ProtocolError{URL: url, Status: http.StatusOK, Detail: err.Error()}
	}
	if answer.Status == 0 || answer.Status >= 200 && answer.Status <= 299 {
		*result = PutResult{ID: answer.ID, Topic: answer.Topic, State: answer.State, DueAt: answer.DueAt}
		return nil
	}
	refused := answer.refused()
	// The server names the fields of a batch by their place in it.
	place := fmt.Sprintf("jobs[%d].", a.place)
	refused.Field = strings.TrimPrefix(refused.Field, place)
	refused.Detail = strings.ReplaceAll(refused.Detail, "`"+place, "`")
	if isRetryable(refused) {
		refused.RetryAfter = a.retryAfter
	}
	return refused
}
