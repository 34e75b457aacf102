package delayqueue

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for an event before it fails.
const patience = 30 * time.Second

// scriptedServer answers pops with the jobs that a test gives it, and reports what the worker does.
type scriptedServer struct {
	*httptest.Server
	t        *testing.T
	jobs     chan string // jobs to pop, as JSON
	ends     chan string // outcomes, as "verb {item}"
	isLost   bool        // touches are refused
	mu       sync.Mutex
	accepted int // connections
}

func newScriptedServer(t *testing.T) *scriptedServer {
	s := &scriptedServer{t: t, jobs: make(chan string, 1000), ends: make(chan string, 1000)}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.accepted++
			s.mu.Unlock()
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	verb := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case verb == "pop":
		select {
		case job := <-s.jobs:
			io.WriteString(w, `{"jobs":[`+job+`]}`)
		case <-r.Context().Done():
		}
	case verb == "touch":
		if s.isLost {
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"status":409,"code":"reservation_lost","detail":"it is gone"}`)
			return
		}
		io.WriteString(w, `{}`)
	default:
		s.batch(w, r, verb)
	}
}

func (s *scriptedServer) batch(w http.ResponseWriter, r *http.Request, verb string) {
	var batch struct{ Jobs []map[string]any }
	if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
		s.t.Errorf("a batch is not JSON: %v", err)
	}
	var results []string
	for _, item := range batch.Jobs {
		results = append(results, `{"status":204}`)
		data, _ := json.Marshal(item)
		s.ends <- verb + " " + string(data)
	}
	io.WriteString(w, `{"results":[`+strings.Join(results, ",")+`]}`)
}

// job adds a job to pop.
func (s *scriptedServer) job(id, body string, ttr string) {
	s.jobs <- `{"id":"` + id + `","topic":"orders","body":` + body + `,"attempt":1,"max_attempts":20,"ttr":` + ttr +
		`,"due_at":"2030-01-31T12:00:00.000Z","created_at":"2030-01-31T12:00:00.000Z","reservation":"r-` + id +
		`","reserved_until":"2030-01-31T12:01:00.000Z"}`
}

// next waits for an event.
func next[T any](t *testing.T, events <-chan T) T {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(patience):
		t.Fatal("the event did not come")
		panic("unreachable")
	}
}

func expect(t *testing.T, got, expected string) {
	t.Helper()
	if got != expected {
		t.Fatalf("got %s, expected %s", got, expected)
	}
}

// lines is a logger that tests read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log.New(&l.text, "", 0).Printf(format, args...)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
