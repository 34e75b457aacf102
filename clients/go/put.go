package delayqueue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// OnConflict says what a put does if a job with its id exists. Default: Reject.
type OnConflict string

const (
	// Reject refuses the put with 409 job_exists.
	Reject OnConflict = "reject"
	// Keep leaves the existing job of the same topic as it is, in whatever state.
	Keep OnConflict = "keep"
	// Replace gives the existing job of the same topic the new body and schedule. A reserved job is
	// never replaced: 409 job_reserved.
	Replace OnConflict = "replace"
)

// Put is a job to put, with the fields that the API documents. Only Topic is required. A nil
// pointer means the default of the topic, else that of the server.
type Put struct {
	Topic string
	Body  any // encoded with encoding/json; a json.RawMessage is sent as it is

	ID                string         // default: a ULID that the client makes
	Delay             time.Duration  // at most 10 years; not together with DueAt
	DueAt             time.Time      // a time in the past means now
	TTR               *time.Duration // 1 s to 24 h
	MaxAttempts       *uint32        // 0 is no limit
	Backoff           *Backoff
	OnConflict        OnConflict
	Headers           map[string]string
	Priority          *int           // 0 to 9, larger ones first
	ExpiresAfter      *time.Duration // 1 ms to 10 years after the due time
	FinishedRetention *time.Duration // at most 30 days; 0 removes the job when it is finished
	Traceparent       string         // W3C Trace Context
}

// PutOption sets a field of a put.
type PutOption func(*Put)

// WithID sets an id of your own, such as "close:4711". Then you can cancel the job without storing
// an id, and a put that is repeated later finds the job.
func WithID(id string) PutOption { return func(p *Put) { p.ID = id } }

// WithDelay sets how long after the put the job is due.
func WithDelay(d time.Duration) PutOption { return func(p *Put) { p.Delay = d } }

// WithDueAt sets when the job is due.
func WithDueAt(t time.Time) PutOption { return func(p *Put) { p.DueAt = t } }

// WithTTR sets how long a consumer may hold the job without a touch.
func WithTTR(d time.Duration) PutOption { return func(p *Put) { p.TTR = &d } }

// WithMaxAttempts sets how many attempts the job has before it is dead; 0 is no limit.
func WithMaxAttempts(n uint32) PutOption { return func(p *Put) { p.MaxAttempts = &n } }

// WithBackoff sets the waits between attempts.
func WithBackoff(b *Backoff) PutOption { return func(p *Put) { p.Backoff = b } }

// WithOnConflict sets what happens if a job with the id exists.
func WithOnConflict(c OnConflict) PutOption { return func(p *Put) { p.OnConflict = c } }

// WithHeaders sets the headers of the job, which its handler gets.
func WithHeaders(h map[string]string) PutOption { return func(p *Put) { p.Headers = h } }

// WithPriority sets the priority, from 0 to 9. Ready jobs with a larger one are popped first.
func WithPriority(n int) PutOption { return func(p *Put) { p.Priority = &n } }

// WithExpiresAfter sets how long after its due time the job is worth nothing any more.
func WithExpiresAfter(d time.Duration) PutOption { return func(p *Put) { p.ExpiresAfter = &d } }

// WithFinishedRetention sets how long the job is kept, with its result, after it is finished.
func WithFinishedRetention(d time.Duration) PutOption {
	return func(p *Put) { p.FinishedRetention = &d }
}

// WithTraceparent sets the position of the put in a distributed trace.
func WithTraceparent(s string) PutOption { return func(p *Put) { p.Traceparent = s } }

// putRequest is a put as the API takes it.
type putRequest struct {
	Topic             string            `json:"topic"`
	ID                string            `json:"id"`
	Body              json.RawMessage   `json:"body,omitempty"`
	Delay             seconds           `json:"delay,omitempty"`
	DueAt             *time.Time        `json:"due_at,omitempty"`
	TTR               *seconds          `json:"ttr,omitempty"`
	MaxAttempts       *uint32           `json:"max_attempts,omitempty"`
	Backoff           *Backoff          `json:"backoff,omitempty"`
	OnConflict        OnConflict        `json:"on_conflict,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"`
	Priority          *int              `json:"priority,omitempty"`
	ExpiresAfter      *seconds          `json:"expires_after,omitempty"`
	FinishedRetention *seconds          `json:"finished_retention,omitempty"`
	Traceparent       string            `json:"traceparent,omitempty"`
}

// request returns the put as the API takes it, with an id.
func (p *Put) request() (*putRequest, error) {
	body, err := encode(p.Body)
	if err != nil {
		return nil, &UsageError{Field: "body", Detail: fmt.Sprintf("JSON cannot express a %T: %v", p.Body, err)}
	}
	r := &putRequest{Topic: p.Topic, ID: p.ID, Body: body, Delay: seconds(p.Delay), TTR: optional(p.TTR),
		MaxAttempts: p.MaxAttempts, Backoff: p.Backoff, OnConflict: p.OnConflict, Headers: p.Headers,
		Priority: p.Priority, ExpiresAfter: optional(p.ExpiresAfter),
		FinishedRetention: optional(p.FinishedRetention), Traceparent: p.Traceparent}
	if !p.DueAt.IsZero() {
		r.DueAt = &p.DueAt
	}
	if r.ID == "" {
		r.ID = newID(time.Now())
	}
	return r, nil
}

// encode returns the value as JSON, without the escapes for HTML that json.Marshal adds.
func encode(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
