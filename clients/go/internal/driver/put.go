package main

import (
	"encoding/json"
	"time"

	delayqueue "example.com/delay-queue/clients/go"
)

// putFields are the fields of a put in the form of the API.
type putFields struct {
	Topic             string                `json:"topic"`
	ID                string                `json:"id"`
	Body              json.RawMessage       `json:"body"`
	Delay             *apiDuration          `json:"delay"`
	DueAt             *time.Time            `json:"due_at"`
	TTR               *apiDuration          `json:"ttr"`
	MaxAttempts       *uint32               `json:"max_attempts"`
	Backoff           *delayqueue.Backoff   `json:"backoff"`
	OnConflict        delayqueue.OnConflict `json:"on_conflict"`
	Headers           map[string]string     `json:"headers"`
	Priority          *int                  `json:"priority"`
	ExpiresAfter      *apiDuration          `json:"expires_after"`
	FinishedRetention *apiDuration          `json:"finished_retention"`
	Traceparent       string                `json:"traceparent"`
}

// apiDuration is a number of seconds, or text with a unit that Go knows, too.
type apiDuration time.Duration

func (a *apiDuration) UnmarshalJSON(data []byte) error {
	var number float64
	if err := json.Unmarshal(data, &number); err == nil {
		*a = apiDuration(duration(number))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(text)
	*a = apiDuration(parsed)
	return err
}

func (f *putFields) options() []delayqueue.PutOption {
	return []delayqueue.PutOption{func(p *delayqueue.Put) {
		p.ID, p.MaxAttempts, p.Backoff, p.OnConflict = f.ID, f.MaxAttempts, f.Backoff, f.OnConflict
		p.Headers, p.Priority, p.Traceparent = f.Headers, f.Priority, f.Traceparent
		p.TTR, p.ExpiresAfter = (*time.Duration)(f.TTR), (*time.Duration)(f.ExpiresAfter)
		p.FinishedRetention = (*time.Duration)(f.FinishedRetention)
		if f.Delay != nil {
			p.Delay = time.Duration(*f.Delay)
		}
		if f.DueAt != nil {
			p.DueAt = *f.DueAt
		}
	}}
}
