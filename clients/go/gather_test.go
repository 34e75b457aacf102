package delayqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// heldServer tells a test of each request, and answers when the test says so.
type heldServer struct {
	*httptest.Server
	arrived chan string // path and body
	answers chan answer
}

type answer struct {
	status int
	body   string
}

func newHeldServer(t *testing.T) (*heldServer, *Queue) {
	s := &heldServer{arrived: make(chan string), answers: make(chan answer)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case s.arrived <- strings.TrimPrefix(r.URL.Path, "/v1") + " " + string(body):
		case <-r.Context().Done():
		}
		select {
		case a := <-s.answers:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(a.status)
			io.WriteString(w, a.body)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	q, err := New(s.URL, WithRetryFor(0))
	if err != nil {
		t.Fatal(err)
	}
	return s, q
}

// reply answers the request under way.
func (s *heldServer) reply(t *testing.T, a answer) {
	t.Helper()
	select {
	case s.answers <- a:
	case <-time.After(patience):
		t.Fatal("no request is under way")
	}
}

// put puts a job whose id is its body, and returns the channel of the error.
func (s *heldServer) put(ctx context.Context, q *Queue, id string) chan error {
	returned := make(chan error, 1)
	go func() {
		job, err := q.Put(ctx, "t", nil, WithID(id))
		if err == nil && job.ID != id {
			err = fmt.Errorf("the put of %s returned %s", id, job.ID)
		}
		returned <- err
	}()
	return returned
}

// waitUntilGathered waits until this number of puts waits for the request under way.
func (q *Queue) waitUntilGathered(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		q.gatherer.mu.Lock()
		waiting := len(q.gatherer.waiting)
		q.gatherer.mu.Unlock()
		if waiting == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d puts wait, expected %d", waiting, n)
		}
	}
}

func jobOf(id string) string { return `{"topic":"t","id":"` + id + `","body":null}` }

func TestAPutWhoseContextEndsWhileItWaitsIsNotSent(t *testing.T) {
	s, q := newHeldServer(t)
	first := s.put(context.Background(), q, "a")
	expect(t, next(t, s.arrived), "/jobs "+jobOf("a"))
	ctx, cancel := context.WithCancel(context.Background())
	cancelled := s.put(ctx, q, "b")
	q.waitUntilGathered(t, 1)
	third := s.put(context.Background(), q, "c")
	q.waitUntilGathered(t, 2)
	cancel()
	err := next(t, cancelled)
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || unavailable.Applied != AppliedNo || !errors.Is(err, context.Canceled) {
		t.Fatalf("the cancelled put: %v", err)
	}
	s.reply(t, answer{201, `{"id":"a"}`})
	expect(t, next(t, s.arrived), "/jobs "+jobOf("c"))
	s.reply(t, answer{201, `{"id":"c"}`})
	for _, returned := range []chan error{first, third} {
		if err := next(t, returned); err != nil {
			t.Error(err)
		}
	}
}

func TestARequestGoesOnForTheOthersWhenTheContextOfOnePutEnds(t *testing.T) {
	s, q := newHeldServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	alone := s.put(ctx, q, "a")
	next(t, s.arrived)
	var returned []chan error
	for i, id := range []string{"b", "c"} {
		returned = append(returned, s.put([]context.Context{ctx, context.Background()}[i], q, id))
		q.waitUntilGathered(t, i+1)
	}
	s.reply(t, answer{201, `{"id":"a"}`})
	if err := next(t, alone); err != nil {
		t.Error(err)
	}
	expect(t, next(t, s.arrived), `/batch/jobs {"jobs":[`+jobOf("b")+","+jobOf("c")+"]}")
	cancel()
	if err := next(t, returned[0]); appliedOf(err) != AppliedUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled put: %v", err)
	}
	s.reply(t, answer{200, `{"results":[{"status":201,"id":"b"},{"status":201,"id":"c"}]}`})
	if err := next(t, returned[1]); err != nil {
		t.Error(err)
	}
}

func TestPutsThatWaitAreSentWhenTheContextOfTheFirstEnds(t *testing.T) {
	s, q := newHeldServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	first := s.put(ctx, q, "a")
	next(t, s.arrived)
	second := s.put(context.Background(), q, "b")
	q.waitUntilGathered(t, 1)
	cancel()
	expect(t, next(t, s.arrived), "/jobs "+jobOf("b"))
	s.reply(t, answer{201, `{"id":"b"}`})
	if err := next(t, first); appliedOf(err) != AppliedUnknown {
		t.Errorf("the first put: %v", err)
	}
	if err := next(t, second); err != nil {
		t.Error(err)
	}
}

// gather puts "a" alone, then "b" and "c" together, and returns the channels of the latter.
func (s *heldServer) gather(t *testing.T, q *Queue) []chan error {
	first := s.put(context.Background(), q, "a")
	next(t, s.arrived)
	var returned []chan error
	for i, id := range []string{"b", "c"} {
		returned = append(returned, s.put(context.Background(), q, id))
		q.waitUntilGathered(t, i+1)
	}
	s.reply(t, answer{201, `{"id":"a"}`})
	if err := next(t, first); err != nil {
		t.Error(err)
	}
	next(t, s.arrived)
	return returned
}

func TestPutsWhoseBatchIsRefusedAreSentOneByOne(t *testing.T) {
	for _, refusal := range []answer{
		{413, `{"status":413,"code":"body_too_large","applied":"no"}`}, {404, "<html>"},
		{400, `{"status":400,"code":"invalid_json","applied":"no"}`},
	} {
		s, q := newHeldServer(t)
		returned := s.gather(t, q)
		s.reply(t, refusal)
		expect(t, next(t, s.arrived), "/jobs "+jobOf("b"))
		s.reply(t, refusal)
		if err := next(t, returned[0]); err == nil {
			t.Errorf("%v: the put succeeded", refusal)
		}
		expect(t, next(t, s.arrived), "/jobs "+jobOf("c"))
		s.reply(t, answer{201, `{"id":"c"}`})
		if err := next(t, returned[1]); err != nil {
			t.Errorf("%v: %v", refusal, err)
		}
	}
}

func TestARefusalOfTheTokenIsThatOfEachPut(t *testing.T) {
	for _, status := range []int{401, 403, 429} {
		s, q := newHeldServer(t)
		returned := s.gather(t, q)
		s.reply(t, answer{status, `{"code":"x","applied":"no"}`})
		for _, r := range returned {
			var refused *RefusedError
			if err := next(t, r); !errors.As(err, &refused) || refused.Status != status || refused.RetryAfter != 7*time.Second {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
}

func TestARefusalInABatchReadsAsThatOfASinglePut(t *testing.T) {
	s, q := newHeldServer(t)
	returned := s.gather(t, q)
	s.reply(t, answer{200, `{"results":[{"status":503,"code":"overloaded","applied":"no"},{"status":422,"code":"invalid_field",` +
		`"field":"jobs[1].backoff.max","detail":"` + "`jobs[1].backoff.max` is wrong" + `","applied":"no"}]}`})
	var refused *RefusedError
	if err := next(t, returned[0]); !errors.As(err, &refused) || refused.Status != 503 || refused.RetryAfter != 7*time.Second {
		t.Errorf("the overloaded put: %v", err)
	}
	if err := next(t, returned[1]); !errors.As(err, &refused) || refused.Field != "backoff.max" ||
		refused.Detail != "`backoff.max` is wrong" || refused.RetryAfter != 0 {
		t.Errorf("the wrong put: %#v", err)
	}
}

func TestARequestHasAThousandPutsAndAMebibyteAtMost(t *testing.T) {
	large, small := make([]byte, 400_000), []byte("{}")
	huge := make([]byte, 2<<20)
	for _, c := range []struct {
		bodies   [][]byte
		expected []int
	}{
		{bytes.Split(bytes.Repeat([]byte("x"), 2499), []byte{}), []int{1000, 1000, 499}},
		{[][]byte{large, large, large, small}, []int{2, 2}},
		{[][]byte{small, huge, small}, []int{1, 1, 1}},
	} {
		g := &gatherer{sending: true}
		for _, body := range c.bodies {
			g.join(context.Background(), body)
		}
		var sizes []int
		for batch := g.take(); batch != nil; batch = g.take() {
			sizes = append(sizes, len(batch))
		}
		got, _ := json.Marshal(sizes)
		expected, _ := json.Marshal(c.expected)
		expect(t, string(got), string(expected))
		if g.sending {
			t.Error("the gatherer still has a turn")
		}
	}
}
