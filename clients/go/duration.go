package delayqueue

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// seconds is a duration as the API writes it: a number of seconds. It is rounded up to whole
// milliseconds, so that no job is due early.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	d := time.Duration(s)
	milliseconds := d.Milliseconds()
	if d%time.Millisecond > 0 {
		milliseconds++
	}
	return strconv.AppendFloat(nil, float64(milliseconds)/1000, 'f', -1, 64), nil
}

func (s *seconds) UnmarshalJSON(data []byte) error {
	var number *float64
	if err := json.Unmarshal(data, &number); err != nil {
		return fmt.Errorf("a duration is a number of seconds: %w", err)
	}
	if number == nil {
		*s = 0
		return nil
	}
	*s = seconds(secondsToDuration(*number))
	return nil
}

// secondsToDuration rounds to microseconds, the most that a float64 can tell of ten years, and limits
// the number to what a time.Duration can hold.
func secondsToDuration(number float64) time.Duration {
	microseconds := math.Round(number * 1e6)
	if microseconds >= math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(microseconds) * time.Microsecond
}

// parameter returns the duration as the value of a query parameter.
func parameter(d time.Duration) string {
	text, _ := seconds(d).MarshalJSON()
	return string(text)
}

// optional returns nil for nil, so that a field that is not set is left out of the JSON.
func optional(d *time.Duration) *seconds {
	return (*seconds)(d)
}

// Backoff says how long a job waits before its next attempt, after a failure or an ended TTR.
type Backoff struct {
	list        []seconds
	exponential *exponential
}

type exponential struct {
	Initial seconds `json:"initial"`
	Factor  float64 `json:"factor,omitempty"`
	Max     seconds `json:"max"`
	Jitter  float64 `json:"jitter,omitempty"`
}

// BackoffList waits for the given durations, one after each attempt; the last one repeats. A job
// without a maximum of attempts of its own has one attempt more than the list has durations.
func BackoffList(waits ...time.Duration) *Backoff {
	b := &Backoff{list: []seconds{}}
	for _, wait := range waits {
		b.list = append(b.list, seconds(wait))
	}
	return b
}

// BackoffExponential waits for initial × factor^(n − 1) after attempt n, at most max, varied by up
// to ± jitter (0 to 1) of itself.
func BackoffExponential(initial time.Duration, factor float64, max time.Duration, jitter float64) *Backoff {
	return &Backoff{exponential: &exponential{seconds(initial), factor, seconds(max), jitter}}
}

// MarshalJSON returns the form that the API takes.
func (b Backoff) MarshalJSON() ([]byte, error) {
	if b.exponential != nil {
		return json.Marshal(b.exponential)
	}
	return json.Marshal(b.list)
}

// UnmarshalJSON reads the form that the API returns.
func (b *Backoff) UnmarshalJSON(data []byte) error {
	*b = Backoff{}
	if err := json.Unmarshal(data, &b.list); err == nil {
		return nil
	}
	b.list = nil
	return json.Unmarshal(data, &b.exponential)
}
