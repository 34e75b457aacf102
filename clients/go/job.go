package delayqueue

import (
	"encoding/json"
	"time"
)

// Job is a job that a handler works on.
type Job[T any] struct {
	Body T
	JobInfo
}

// JobInfo is what a handler gets with the body of a job.
type JobInfo struct {
	ID          string
	Topic       string
	Attempt     int // from 1
	MaxAttempts uint32
	Priority    int
	DueAt       time.Time
	CreatedAt   time.Time
	// TTR is how long the job may be held without a touch. The worker touches it.
	TTR time.Duration
	// ReservedUntil is when the reservation ended if nobody touched it, by the server's clock.
	ReservedUntil time.Time
	ExpiresAt     time.Time // zero if the job does not expire
	ScheduledAt   time.Time // instant of the schedule that put the job; zero without one
	Traceparent   string    // W3C Trace Context of the put; empty without one
	Headers       map[string]string
	DeadFrom      string // topic in which the job died before it came here; empty without one
}

// poppedJob is a job in the answer of a pop.
type poppedJob struct {
	ID            string            `json:"id"`
	Topic         string            `json:"topic"`
	Body          json.RawMessage   `json:"body"`
	Attempt       int               `json:"attempt"`
	MaxAttempts   uint32            `json:"max_attempts"`
	Priority      *int              `json:"priority"`
	DueAt         time.Time         `json:"due_at"`
	CreatedAt     time.Time         `json:"created_at"`
	TTR           seconds           `json:"ttr"`
	Reservation   string            `json:"reservation"`
	ReservedUntil time.Time         `json:"reserved_until"`
	ExpiresAt     time.Time         `json:"expires_at"`
	ScheduledAt   time.Time         `json:"scheduled_at"`
	Traceparent   string            `json:"traceparent"`
	Headers       map[string]string `json:"headers"`
	DeadFrom      string            `json:"dead_from"`
}

// defaultPriority is the priority of a job in whose pop the server does not mention it.
const defaultPriority = 4

func (p *poppedJob) info() JobInfo {
	priority := defaultPriority
	if p.Priority != nil {
		priority = *p.Priority
	}
	return JobInfo{ID: p.ID, Topic: p.Topic, Attempt: p.Attempt, MaxAttempts: p.MaxAttempts, Priority: priority,
		DueAt: p.DueAt, CreatedAt: p.CreatedAt, TTR: time.Duration(p.TTR), ReservedUntil: p.ReservedUntil,
		ExpiresAt: p.ExpiresAt, ScheduledAt: p.ScheduledAt, Traceparent: p.Traceparent, Headers: p.Headers,
		DeadFrom: p.DeadFrom}
}
