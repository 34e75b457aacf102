package delayqueue

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// handlerFunc calls the handler of a topic and returns how the attempt ends.
type handlerFunc func(ctx context.Context, popped *poppedJob) outcome

// Worker pops jobs, holds them while their handlers run, and acknowledges them. Register handlers
// with Handle, then call Run.
type Worker struct {
	queue       *Queue
	logger      Logger
	concurrency int
	grace       time.Duration
	wait        time.Duration
	consumer    string

	topics   []string // in the order of their registration
	handlers map[string]handlerFunc
	started  atomic.Bool
	warned   sync.Map // results that were refused: topic and code
}

// WorkerOption is an option of NewWorker.
type WorkerOption func(*Worker)

// WithConcurrency sets how many handlers run at once. Default: 16.
func WithConcurrency(n int) WorkerOption { return func(w *Worker) { w.concurrency = n } }

// WithGrace sets how long handlers may go on after the context of Run is cancelled. Default: 25 s,
// which leaves some of the 30 s that Kubernetes gives a process to end.
func WithGrace(d time.Duration) WorkerOption { return func(w *Worker) { w.grace = d } }

// WithPopWait sets how long a pop waits for the first job, up to 60 s. Default: 20 s.
func WithPopWait(d time.Duration) WorkerOption { return func(w *Worker) { w.wait = d } }

// WithConsumer sets the name that the server shows for the jobs that this worker holds: at most
// 64 letters, digits and characters of "._:@/-"; others become "-". Default: host and process id.
func WithConsumer(name string) WorkerOption {
	return func(w *Worker) { w.consumer = consumerName(name, "") }
}

// NewWorker returns a worker without handlers.
func NewWorker(q *Queue, options ...WorkerOption) *Worker {
	w := &Worker{queue: q, logger: q.logger, concurrency: 16, grace: 25 * time.Second,
		wait: 20 * time.Second, consumer: hostAndProcess(), handlers: map[string]handlerFunc{}}
	for _, option := range options {
		option(w)
	}
	return w
}

func (w *Worker) register(topic string, handler handlerFunc) {
	if w.started.Load() {
		panic("delayqueue: Handle(" + topic + ") after Run; register all handlers before")
	}
	if _, ok := w.handlers[topic]; ok {
		panic("delayqueue: topic " + topic + " has two handlers")
	}
	w.topics = append(w.topics, topic)
	w.handlers[topic] = handler
}

// Run works until the context is cancelled, for instance by signal.NotifyContext. Then it pops no
// more jobs, gives running handlers the grace, cancels those that are left, gives their jobs back
// without counting the attempts, sends what is left to acknowledge, and returns nil.
//
// If the server refuses the first pop, for instance because of the token, Run returns the
// *RefusedError, wrapped with what to do. While the server is unavailable, or if it refuses later
// pops, Run logs that once and retries.
//
// A worker runs only once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	if w.started.Swap(true) {
		return &UsageError{Field: "worker", Detail: "Run was called twice; make another worker"}
	}
	r := newRun(ctx, w)
	defer r.close()
	// Only a refused first pop is an error, and then nothing is under way.
	if err := r.popUntilStopped(ctx); err != nil {
		return err
	}
	r.stop()
	return nil
}

func (w *Worker) check() error {
	switch {
	case len(w.topics) == 0:
		return &UsageError{Field: "topics", Detail: "the worker has no handler; register one with Handle"}
	case len(w.topics) > 100:
		return &UsageError{Field: "topics", Detail: fmt.Sprintf(
			"got %d, at most 100 are allowed; use more workers", len(w.topics))}
	case w.concurrency < 1:
		return &UsageError{Field: "concurrency", Detail: fmt.Sprintf("got %d, at least 1 is needed", w.concurrency)}
	case w.wait < 0 || w.wait > maxWait:
		return &UsageError{Field: "wait", Detail: fmt.Sprintf("got %v, 0 to %v is allowed", w.wait, maxWait)}
	case w.consumer == "":
		return &UsageError{Field: "consumer", Detail: "the name is empty, at least one character is needed"}
	case w.grace < 0:
		return &UsageError{Field: "grace", Detail: fmt.Sprintf("got %v, must not be negative", w.grace)}
	}
	return nil
}

// maxConsumer is the longest name of a consumer that the server takes.
const maxConsumer = 64

// hostAndProcess returns "host:pid" in the characters that the server takes.
func hostAndProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return consumerName(host, fmt.Sprintf(":%d", os.Getpid()))
}

// consumerName returns the name and the suffix in the characters and the length that the server
// takes. It shortens the name.
func consumerName(name, suffix string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:@/-", r) {
			return r
		}
		return '-'
	}, name)
	if len(name) > maxConsumer-len(suffix) {
		name = name[:maxConsumer-len(suffix)]
	}
	return name + suffix
}
