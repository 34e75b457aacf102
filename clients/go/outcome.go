package delayqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// BuryError is what Bury returns. The worker finds it with errors.As, also in a wrapped error.
type BuryError struct{ Reason string }

func (e *BuryError) Error() string {
	if e.Reason == "" {
		return "buried by its handler"
	}
	return e.Reason
}

// Bury returns an error that makes the job dead, without further attempts. The text of the error
// that the handler returns becomes the error of the job.
func Bury(reason string) error { return &BuryError{Reason: reason} }

// SnoozeError is what Snooze returns. The worker finds it with errors.As, also in a wrapped error.
type SnoozeError struct{ Delay time.Duration }

func (e *SnoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.Delay) }

// Snooze returns an error that gives the job back for this time. The attempt does not count.
func Snooze(delay time.Duration) error { return &SnoozeError{Delay: delay} }

// verb is the call that ends an attempt.
type verb string

const (
	finish  verb = "finish"
	release verb = "release"
	bury    verb = "bury"
)

// outcome is how an attempt ends: a verb and its fields, as the API takes them.
type outcome struct {
	verb         verb
	Result       json.RawMessage `json:"result,omitempty"`
	Error        string          `json:"error,omitempty"`
	Delay        *seconds        `json:"delay,omitempty"`
	CountAttempt *bool           `json:"count_attempt,omitempty"`
}

// maxErrorBytes is the longest error that the server takes.
const maxErrorBytes = 4096

// outcomeOf returns the outcome for the error that a handler returned.
func outcomeOf(err error) outcome {
	var buried *BuryError
	var snoozed *SnoozeError
	switch {
	case err == nil:
		return outcome{verb: finish}
	case errors.As(err, &buried):
		return outcome{verb: bury, Error: cut(err.Error())}
	case errors.As(err, &snoozed):
		return givenBack(snoozed.Delay)
	}
	return outcome{verb: release, Error: cut(err.Error())}
}

// givenBack returns the outcome of a release that does not count the attempt.
func givenBack(delay time.Duration) outcome {
	if delay < 0 {
		delay = 0
	}
	wait, counted := seconds(delay), false
	return outcome{verb: release, Delay: &wait, CountAttempt: &counted}
}

// cut returns the text as valid UTF-8, with at most maxErrorBytes bytes.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxErrorBytes {
		return text
	}
	end := maxErrorBytes - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
