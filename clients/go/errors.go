package delayqueue

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors to compare with errors.Is.
var (
	// ErrNotFound: no job has this id. It was never put, or is finished, deleted or past its
	// retention.
	ErrNotFound = errors.New("no job has this id")
	// ErrExists: another job has this id.
	ErrExists = errors.New("a job has this id already")
	// ErrWrongState: the job is in none of the states that the call allows.
	ErrWrongState = errors.New("the job is in another state")
)

var errorsByCode = map[string]error{
	"job_not_found": ErrNotFound,
	"job_exists":    ErrExists,
	"wrong_state":   ErrWrongState,
}

// Values of Applied.
const (
	// AppliedNo: the request changed nothing.
	AppliedNo = "no"
	// AppliedUnknown: the request may have been applied.
	AppliedUnknown = "unknown"
)

// RefusedError is an answer of the server that is not a success.
type RefusedError struct {
	Status     int           // HTTP status
	Code       string        // stable code such as "invalid_field"; empty if the answer has none
	Field      string        // path of the invalid field, if one is invalid
	Detail     string        // sentence for people
	Applied    string        // AppliedNo or AppliedUnknown
	State      string        // state of the job, with the codes job_exists and wrong_state
	Topic      string        // topic of the job, with the code job_exists
	RequestID  string        // id of the request in the server's log
	RetryAfter time.Duration // shortest wait before a retry; 0 if the answer has none
}

func (e *RefusedError) Error() string {
	code := e.Code
	if code == "" {
		code = "no code"
	}
	text := fmt.Sprintf("delayqueue: refused with %d (%s)", e.Status, code)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Field != "" && !strings.Contains(e.Detail, e.Field) {
		text += " (field " + e.Field + ")"
	}
	return text
}

// Is reports whether target is the sentinel error of the code.
func (e *RefusedError) Is(target error) bool {
	return target != nil && errorsByCode[e.Code] == target
}

// UnavailableError says that the server gave no answer: the connection failed or broke, or the time
// was over. The call was retried as long as WithRetryFor allows.
type UnavailableError struct {
	URL     string // address of the server
	Applied string // AppliedNo if the request was not sent, else AppliedUnknown
	Err     error  // cause

	retryAfter time.Duration
}

func (e *UnavailableError) Error() string {
	if e.Applied == AppliedNo {
		return fmt.Sprintf("delayqueue: the request to %s was not sent: %v", e.URL, e.Err)
	}
	return fmt.Sprintf("delayqueue: no answer from %s, so the result of the request is unknown: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ProtocolError is an answer that no delay-queue gives, such as a page of HTML: the URL is wrong, or
// a proxy answers.
type ProtocolError struct {
	URL    string // address of the server
	Status int    // HTTP status of the answer
	Detail string // what is wrong with the answer
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("delayqueue: the answer of %s with status %d is not one of delay-queue: %s; "+
		"check the URL, and proxies before the server", e.URL, e.Status, e.Detail)
}

// UsageError is a call that cannot be right, such as a body that JSON cannot express. No request
// was sent.
type UsageError struct {
	Field  string // the argument or field
	Detail string // what was given and what is allowed
}

func (e *UsageError) Error() string { return "delayqueue: " + e.Field + ": " + e.Detail }
