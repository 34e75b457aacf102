package delayqueue

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAWrongAddressOrTokenIsAUsageError(t *testing.T) {
	for address, reason := range map[string]string{
		"":                    "neither http nor https",
		"127.0.0.1:9277":      "not a URL",
		"ftp://queue.example": "neither http nor https",
		"http://":             "the host is missing",
		"http://a:b@queue":    "use WithToken",
		"http://queue/?x=1":   "a query or fragment",
		"http://queue:port":   "not a URL",
	} {
		_, err := New(address)
		var usage *UsageError
		if !errors.As(err, &usage) || usage.Field != "url" || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got %v, expected %q", address, err, reason)
		}
	}
	if _, err := New("http://queue", WithToken("dq_x\n")); err == nil || strings.Contains(err.Error(), "dq_x") {
		t.Errorf("a token with a line break: %v", err)
	}
}

func TestConcurrentCallsReuseTheirConnections(t *testing.T) {
	s := newScriptedServer(t)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"id":"a"}`)
	})
	q, _ := New(s.URL)
	const callers, calls = 20, 50
	done := make(chan error, callers)
	for i := 0; i < callers; i++ {
		go func() {
			for i := 0; i < calls; i++ {
				if _, err := q.Get(context.Background(), "a"); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for i := 0; i < callers; i++ {
		if err := next(t, done); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepted > 2*callers {
		t.Errorf("%d connections for %d callers", s.accepted, callers)
	}
}

func TestWrongUseOfAWorkerIsNamed(t *testing.T) {
	q, _ := New("http://127.0.0.1:1")
	handle := func(w *Worker) { Handle(w, "orders", func(context.Context, *Job[any]) error { return nil }) }
	for field, w := range map[string]*Worker{
		"topics":      NewWorker(q),
		"concurrency": NewWorker(q, WithConcurrency(0)),
		"grace":       NewWorker(q, WithGrace(-time.Second)),
		"wait":        NewWorker(q, WithPopWait(time.Hour)),
		"consumer":    NewWorker(q, WithConsumer("")),
	} {
		if field != "topics" {
			handle(w)
		}
		var usage *UsageError
		if err := w.Run(context.Background()); !errors.As(err, &usage) || usage.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	w := NewWorker(q)
	handle(w)
	defer func() {
		if value := recover(); value != "delayqueue: topic orders has two handlers" {
			t.Errorf("a second handler: %v", value)
		}
	}()
	handle(w)
}
