package delayqueue

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// Longest wait that the server allows a request.
	maxWait = 60 * time.Second
	// Time that the answer may take after the wait that the request asked for.
	answerTimeout = 10 * time.Second
)

// Queue is a connection pool to a server, or to several servers behind one address. It is safe for
// concurrent use. Its methods retry as the documentation of Put says.
type Queue struct {
	url       string // without a slash at its end
	token     string
	transport http.RoundTripper
	retryFor  time.Duration
	logger    Logger
	isFake    bool // Wait does not wait, since only the test moves the clock
	gatherer  *gatherer
}

// Logger receives one line for each event that an operator should know. A *log.Logger is one.
type Logger interface {
	Printf(format string, args ...any)
}

// QueueOption is an option of New.
type QueueOption func(*Queue)

// WithToken sends an access token with each request. Default: none.
func WithToken(token string) QueueOption {
	return func(q *Queue) { q.token = token }
}

// WithRetryFor sets how long a call is retried before it returns its last error. Default: 30 s.
// 0 disables retries.
func WithRetryFor(d time.Duration) QueueOption {
	return func(q *Queue) { q.retryFor = d }
}

// WithTransport replaces the HTTP transport, for instance to trust a private CA. Its timeouts, if
// it has any, must be longer than the wait of a pop (20 s) and of Wait (60 s). It must keep enough
// idle connections: http.DefaultTransport keeps only two for each host.
func WithTransport(t http.RoundTripper) QueueOption {
	return func(q *Queue) { q.transport = t }
}

// WithLogger sets where the queue and its workers log. Default: log.Default().
func WithLogger(l Logger) QueueOption {
	return func(q *Queue) { q.logger = l }
}

// New returns a queue for the server at an address such as "http://127.0.0.1:9277" or
// "https://queue.example/prefix". It connects with the first call. An address or a token that
// cannot be right is a *UsageError.
func New(address string, options ...QueueOption) (*Queue, error) {
	parsed, err := url.Parse(address)
	wrong := func(reason string) (*Queue, error) {
		return nil, &UsageError{Field: "url", Detail: fmt.Sprintf(
			"%s: got %q, expected an address such as http://127.0.0.1:9277", reason, address)}
	}
	switch {
	case err != nil:
		return wrong("not a URL")
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return wrong("the scheme is neither http nor https")
	case parsed.Host == "":
		return wrong("the host is missing")
	case parsed.User != nil:
		return wrong("a user in the URL is not supported; use WithToken")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return wrong("a query or fragment is not allowed")
	}
	q := &Queue{
		url:      strings.TrimRight(parsed.String(), "/"),
		retryFor: 30 * time.Second,
		logger:   log.Default(),
		gatherer: &gatherer{},
	}
	for _, option := range options {
		option(q)
	}
	if strings.ContainsAny(q.token, "\r\n\t ") {
		return nil, &UsageError{Field: "token", Detail: "contains white space; " +
			"a token is text such as dq_…, without a line break at its end"}
	}
	if q.transport == nil {
		q.transport = newTransport()
	}
	return q, nil
}

// newTransport returns a transport for many requests to one host.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: answerTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: answerTimeout,
		IdleConnTimeout:     90 * time.Second,
		// The default of 2 would close and reopen connections all the time.
		MaxIdleConnsPerHost: 256,
		DisableCompression:  true,
		// A DialContext also switches HTTP/2 off, whose requests keep using a connection that died
		// silently. HTTP/1.1 drops a connection after the first request that timed out, and lets a
		// worker end its pop without losing jobs.
		DialContext: dialer.DialContext,
	}
}
