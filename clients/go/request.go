package delayqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// request is one call of the API. Its path begins with a slash and includes the query.
type request struct {
	method  string
	path    string
	body    []byte        // nil if the request has none
	timeout time.Duration // time from the connection to the end of the answer
}

// send makes one attempt and decodes a successful answer into answer, unless that is nil. The error
// is a *RefusedError, an *UnavailableError or a *ProtocolError.
func (q *Queue) send(ctx context.Context, r request, answer any) error {
	_, err := q.exchange(ctx, r, answer)
	return err
}

// exchange is send, and also returns the header of a successful answer.
func (q *Queue) exchange(ctx context.Context, r request, answer any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	response, err := q.roundTrip(ctx, r)
	if err != nil {
		return nil, q.unavailable(ctx, r, appliedBefore(err), err)
	}
	defer response.Body.Close()
	// Reading to the end lets the next request use the connection.
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, q.unavailable(ctx, r, AppliedUnknown, err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, q.refusal(response, data)
	}
	if answer == nil {
		return response.Header, nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return nil, &ProtocolError{URL: q.url, Status: response.StatusCode, Detail: err.Error()}
	}
	return response.Header, nil
}

func (q *Queue) roundTrip(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	request, err := http.NewRequestWithContext(ctx, r.method, q.url+"/v1"+r.path, body)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if q.token != "" {
		request.Header.Set("Authorization", "Bearer "+q.token)
	}
	request.Header.Set("User-Agent", "delay-queue-go/"+Version)
	// Not http.Client: it would follow redirects, and turn a redirected POST into a GET.
	return q.transport.RoundTrip(request)
}

// appliedBefore returns AppliedNo if the connection failed before the request was sent.
func appliedBefore(err error) string {
	var operation *net.OpError
	if errors.As(err, &operation) && (operation.Op == "dial" || operation.Op == "proxyconnect") {
		return AppliedNo
	}
	return AppliedUnknown
}

// unavailable returns the error of a request without a complete answer.
func (q *Queue) unavailable(ctx context.Context, r request, applied string, err error) error {
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.DeadlineExceeded):
		err = fmt.Errorf("no complete answer within %v: %w", r.timeout, cause)
	case cause != nil:
		err = cause
	}
	return &UnavailableError{URL: q.url, Applied: applied, Err: err}
}

// refusal returns the error of an answer that is not a success.
func (q *Queue) refusal(response *http.Response, data []byte) error {
	after := retryAfter(response.Header.Get("Retry-After"))
	var p problem
	// Not by the Content-Type: a proxy may have changed it.
	if json.Unmarshal(data, &p) == nil && p.Code != "" {
		p.Status = response.StatusCode
		refused := p.refused()
		refused.RetryAfter = after
		return refused
	}
	if response.StatusCode >= 500 {
		// A proxy whose server is down.
		return &UnavailableError{URL: q.url, Applied: AppliedUnknown, retryAfter: after,
			Err: fmt.Errorf("the answer is %s, without a problem of delay-queue", response.Status)}
	}
	return &ProtocolError{URL: q.url, Status: response.StatusCode, Detail: fmt.Sprintf(
		"it has no problem with a code, and the Content-Type %q", response.Header.Get("Content-Type"))}
}

func retryAfter(text string) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || seconds < 0 || seconds > 86400 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// problem is the body of a refusal, and a refused result in a batch.
type problem struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Field     string `json:"field"`
	Detail    string `json:"detail"`
	Applied   string `json:"applied"`
	State     string `json:"state"`
	Topic     string `json:"topic"`
	RequestID string `json:"request_id"`
}

func (p problem) refused() *RefusedError {
	applied := p.Applied
	if applied == "" {
		applied = AppliedNo
		if p.Status >= 500 && p.Status != http.StatusInsufficientStorage {
			applied = AppliedUnknown
		}
	}
	return &RefusedError{Status: p.Status, Code: p.Code, Field: p.Field, Detail: p.Detail, Applied: applied,
		State: p.State, Topic: p.Topic, RequestID: p.RequestID}
}
