package delayqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// runWorker runs a worker until the test stops it. stop waits for the end of Run.
func runWorker(t *testing.T, s *scriptedServer, register func(*Worker), options ...WorkerOption) (*lines, func()) {
	t.Helper()
	logged := &lines{}
	q, err := New(s.URL, WithLogger(logged))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorker(q, options...)
	register(w)
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return logged, func() {
		t.Helper()
		cancel()
		if err := next(t, ended); err != nil {
			t.Fatalf("Run returned %v", err)
		}
	}
}

func TestAWorkerSurvivesWhateverItsHandlerDoes(t *testing.T) {
	s := newScriptedServer(t)
	logged, stop := runWorker(t, s, func(w *Worker) {
		HandleResult(w, "orders", func(_ context.Context, job *Job[string]) (any, error) {
			switch job.Body {
			case "panic":
				panic("boom")
			case "panic with nil":
				panic(nil)
			case "goexit":
				runtime.Goexit()
			case "unencodable":
				return make(chan int), nil
			case "panicking result":
				return panics{}, nil
			}
			return nil, nil
		})
	}, WithConcurrency(1))
	unreturned := `release {"error":"` + withoutReturn.Error + `","id":"a","reservation":"r-a"}`
	for body, expected := range map[string]string{
		"panic":            `release {"error":"panic: boom","id":"a","reservation":"r-a"}`,
		"panic with nil":   unreturned,
		"goexit":           unreturned,
		"unencodable":      `finish {"id":"a","reservation":"r-a"}`,
		"panicking result": `finish {"id":"a","reservation":"r-a"}`,
	} {
		s.job("a", `"`+body+`"`, "60")
		expect(t, next(t, s.ends), expected)
	}
	stop()
	for _, text := range []string{"panicked: boom", "worker_test.go", "is a chan int, which JSON cannot express"} {
		if !strings.Contains(logged.String(), text) {
			t.Errorf("the log does not contain %q:\n%s", text, logged)
		}
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

func TestADerivedContextHasTheLostReservationAsItsCause(t *testing.T) {
	s := newScriptedServer(t)
	s.isLost = true
	causes := make(chan error, 1)
	logged, stop := runWorker(t, s, func(w *Worker) {
		Handle(w, "orders", func(ctx context.Context, _ *Job[any]) error {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			<-derived.Done()
			causes <- Cause(derived)
			return nil
		})
	})
	s.job("lost", "null", "1")
	if cause := next(t, causes); !errors.Is(cause, ErrReservationLost) {
		t.Errorf("the cause is %v", cause)
	}
	stop()
	if !strings.Contains(logged.String(), "job lost of topic orders lost its reservation") {
		t.Errorf("the log is %s", logged)
	}
}

func TestAHandlerThatIgnoresItsContextDoesNotKeepRunFromReturning(t *testing.T) {
	s := newScriptedServer(t)
	started, end := make(chan struct{}), make(chan struct{})
	returned := make(chan struct{})
	_, stop := runWorker(t, s, func(w *Worker) {
		Handle(w, "orders", func(ctx context.Context, job *Job[any]) error {
			close(started)
			<-end
			close(returned)
			return nil
		})
	}, WithGrace(0))
	s.job("stuck", "null", "60")
	next(t, started)
	stop()
	expect(t, next(t, s.ends), `release {"count_attempt":false,"delay":0,"id":"stuck","reservation":"r-stuck"}`)
	close(end)
	next(t, returned)
}

func TestAWorkerReusesItsConnections(t *testing.T) {
	const jobs = 400
	s := newScriptedServer(t)
	_, stop := runWorker(t, s, func(w *Worker) {
		Handle(w, "orders", func(context.Context, *Job[any]) error { return nil })
	}, WithConcurrency(32))
	for i := 0; i < jobs; i++ {
		s.job(fmt.Sprint(i), "null", "60")
	}
	for i := 0; i < jobs; i++ {
		next(t, s.ends)
	}
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	// One for the pops, one for the finishes, and some slack for a start with several at once.
	if s.accepted > 4 {
		t.Errorf("%d connections for %d jobs", s.accepted, jobs)
	}
}
