package delayqueue

import (
	"encoding/json"
	"time"
)

// States of a job.
const (
	StateDelayed  = "delayed"
	StateReady    = "ready"
	StateReserved = "reserved"
	StateDead     = "dead"
	StateFinished = "finished"
)

// StoredJob is a job as Get returns it. Pointers are nil, and other fields zero, where the job has
// no such value.
type StoredJob struct {
	ID          string            `json:"id"`
	Topic       string            `json:"topic"`
	State       string            `json:"state"`
	Body        json.RawMessage   `json:"body,omitempty"`
	Attempt     int               `json:"attempt"` // number of pops that count
	MaxAttempts uint32            `json:"max_attempts"`
	Priority    int               `json:"priority"`
	Headers     map[string]string `json:"headers,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	DeadFrom    string            `json:"dead_from,omitempty"` // topic in which the job died

	DueAt         time.Time  `json:"due_at"`
	CreatedAt     time.Time  `json:"created_at"`
	ScheduledAt   *time.Time `json:"scheduled_at,omitempty"`
	ReservedUntil *time.Time `json:"reserved_until"`
	DiedAt        *time.Time `json:"died_at"`
	FinishedAt    *time.Time `json:"finished_at,omitempty"`
	ExpiresAt     *time.Time `json:"expires_at,omitempty"`

	TTR               time.Duration `json:"-"`
	ExpiresAfter      time.Duration `json:"-"`
	FinishedRetention time.Duration `json:"-"`
	Backoff           *Backoff      `json:"backoff"`

	Error         string          `json:"error,omitempty"`    // text of the last release or bury
	Consumer      string          `json:"consumer,omitempty"` // consumer that holds the job
	Outcome       string          `json:"outcome,omitempty"`  // "finished" or "deleted", of a finished job
	Result        json.RawMessage `json:"result,omitempty"`   // of a finished job
	ResultDropped bool            `json:"result_dropped,omitempty"`
	History       []Attempt       `json:"history"` // last ten attempts, the oldest first
}

// Attempt is an entry of the history of a job.
type Attempt struct {
	Attempt   int        `json:"attempt"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`          // nil while it runs
	Outcome   string     `json:"outcome"`           // "released", "timed_out", "buried", "finished"; "" while it runs
	Counted   *bool      `json:"counted,omitempty"` // false if the attempt does not count
	Error     string     `json:"error,omitempty"`   // first 256 bytes of the error
	Consumer  string     `json:"consumer,omitempty"`
}

// storedJobWire has the fields whose form in JSON differs from that in Go.
type storedJobWire struct {
	*storedJobFields
	TTR               seconds `json:"ttr"`
	ExpiresAfter      seconds `json:"expires_after,omitempty"`
	FinishedRetention seconds `json:"finished_retention,omitempty"`
}

type storedJobFields StoredJob

// UnmarshalJSON reads the form of the API.
func (j *StoredJob) UnmarshalJSON(data []byte) error {
	wire := storedJobWire{storedJobFields: (*storedJobFields)(j)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	j.TTR = time.Duration(wire.TTR)
	j.ExpiresAfter = time.Duration(wire.ExpiresAfter)
	j.FinishedRetention = time.Duration(wire.FinishedRetention)
	return nil
}

// MarshalJSON writes the form of the API.
func (j *StoredJob) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedJobWire{(*storedJobFields)(j), seconds(j.TTR), seconds(j.ExpiresAfter),
		seconds(j.FinishedRetention)})
}

// IsEnded reports whether the job is finished or dead.
func (j *StoredJob) IsEnded() bool { return j.State == StateFinished || j.State == StateDead }
