package delayqueue

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// TopicSettings are the defaults for jobs that are put into a topic from now on. A nil field leaves
// the default of the server.
type TopicSettings struct {
	TTR               *time.Duration
	MaxAttempts       *uint32
	Backoff           *Backoff
	DeadRetention     *time.Duration // at most 10 years
	FinishedRetention *time.Duration // at most 30 days
	Priority          *int
	ExpiresAfter      *time.Duration
	DeadTo            string // topic to which a job moves when it dies
}

// topicSettingsWire is the form of the API.
type topicSettingsWire struct {
	TTR               *seconds `json:"ttr,omitempty"`
	MaxAttempts       *uint32  `json:"max_attempts,omitempty"`
	Backoff           *Backoff `json:"backoff,omitempty"`
	DeadRetention     *seconds `json:"dead_retention,omitempty"`
	FinishedRetention *seconds `json:"finished_retention,omitempty"`
	Priority          *int     `json:"priority,omitempty"`
	ExpiresAfter      *seconds `json:"expires_after,omitempty"`
	DeadTo            string   `json:"dead_to,omitempty"`
}

// MarshalJSON writes the form of the API.
func (s TopicSettings) MarshalJSON() ([]byte, error) {
	return json.Marshal(topicSettingsWire{optional(s.TTR), s.MaxAttempts, s.Backoff, optional(s.DeadRetention),
		optional(s.FinishedRetention), s.Priority, optional(s.ExpiresAfter), s.DeadTo})
}

// UnmarshalJSON reads the form of the API.
func (s *TopicSettings) UnmarshalJSON(data []byte) error {
	var w topicSettingsWire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*s = TopicSettings{(*time.Duration)(w.TTR), w.MaxAttempts, w.Backoff, (*time.Duration)(w.DeadRetention),
		(*time.Duration)(w.FinishedRetention), w.Priority, (*time.Duration)(w.ExpiresAfter), w.DeadTo}
	return nil
}

// Topic is a topic with the number of its jobs in each state.
type Topic struct {
	Topic          string        `json:"topic"`
	Delayed        int64         `json:"delayed"`
	Ready          int64         `json:"ready"`
	Reserved       int64         `json:"reserved"`
	Dead           int64         `json:"dead"`
	Finished       int64         `json:"finished"`
	Paused         bool          `json:"paused"`
	PausedUntil    *time.Time    `json:"paused_until"`
	NextDueAt      *time.Time    `json:"next_due_at"`
	OldestReadyAge *float64      `json:"oldest_ready_age"` // seconds that the oldest ready job has waited
	Push           bool          `json:"push"`
	Settings       TopicSettings `json:"defaults"`
}

// Topic returns a topic. One without jobs has zero counts.
func (q *Queue) Topic(ctx context.Context, topic string) (*Topic, error) {
	return q.topicRequest(ctx, http.MethodGet, topic, nil)
}

// SetTopic replaces the settings of a topic. TopicSettings{} removes all of them.
func (q *Queue) SetTopic(ctx context.Context, topic string, settings TopicSettings) (*Topic, error) {
	body, err := json.Marshal(settings)
	if err != nil {
		return nil, &UsageError{Field: "settings", Detail: err.Error()}
	}
	return q.topicRequest(ctx, http.MethodPut, topic, body)
}

func (q *Queue) topicRequest(ctx context.Context, method, topic string, body []byte) (*Topic, error) {
	var result Topic
	err := retry(ctx, q.retryFor, func(bool) error {
		return q.send(ctx, request{method, "/topics/" + url.PathEscape(topic), body, answerTimeout}, &result)
	})
	if err != nil {
		return nil, err
	}
	return &result, nil
}
