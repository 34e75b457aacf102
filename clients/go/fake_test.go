package delayqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

// fakeWith returns a fake and a worker whose handler of "orders" is this function.
func fakeWith(handler func(job *Job[string]) (any, error)) (*Fake, *Worker) {
	fake := NewFake(start)
	w := NewWorker(fake.Queue())
	HandleResult(w, "orders", func(_ context.Context, job *Job[string]) (any, error) { return handler(job) })
	return fake, w
}

func finishes(*Job[string]) (any, error) { return "done", nil }

func put(t *testing.T, f *Fake, id string, options ...PutOption) *PutResult {
	t.Helper()
	result, err := f.Queue().Put(context.Background(), "orders", "body of "+id, append(options, WithID(id))...)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// summary writes the runs as "id/attempt outcome".
func summary(runs []FakeRun) string {
	text := ""
	for _, run := range runs {
		text += fmt.Sprintf("%s/%d %s; ", run.ID, run.Attempt, run.Outcome)
	}
	return text
}

// state writes a job as "state attempt error", or "missing".
func state(t *testing.T, f *Fake, id string) string {
	t.Helper()
	job, err := f.Queue().Get(context.Background(), id)
	if errors.Is(err, ErrNotFound) {
		return "missing"
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %d %s", job.State, job.Attempt, job.Error)
}

func TestTheFakeRunsJobsWhenTheyAreDueByPriority(t *testing.T) {
	f, w := fakeWith(finishes)
	put(t, f, "late", WithDelay(time.Minute))
	put(t, f, "low", WithPriority(1))
	put(t, f, "first")
	put(t, f, "second")
	put(t, f, "high", WithPriority(9), WithDelay(time.Second))
	expect(t, summary(f.RunDue(context.Background(), w)), "first/1 finished; second/1 finished; low/1 finished; ")
	f.Advance(time.Minute - time.Nanosecond)
	expect(t, summary(f.RunDue(context.Background(), w)), "high/1 finished; ")
	f.Advance(time.Nanosecond)
	expect(t, summary(f.RunDue(context.Background(), w)), "late/1 finished; ")
	expect(t, state(t, f, "late"), "missing")
	if now := f.Now(); !now.Equal(start.Add(time.Minute)) {
		t.Errorf("the clock shows %v", now)
	}
}

func TestTheFakeAppliesOutcomesAsTheServerDoes(t *testing.T) {
	var outcomes []error
	f, w := fakeWith(func(*Job[string]) (any, error) {
		err := outcomes[0]
		outcomes = outcomes[1:]
		return "done", err
	})
	ctx := context.Background()
	put(t, f, "a", WithBackoff(BackoffList(time.Minute, time.Hour)), WithFinishedRetention(time.Hour))
	outcomes = []error{errors.New("boom"), Snooze(time.Second), errors.New("again"), nil}
	expect(t, summary(f.RunDue(ctx, w)), "a/1 released; ")
	expect(t, state(t, f, "a"), "delayed 1 boom")
	f.Advance(time.Minute)
	expect(t, summary(f.RunDue(ctx, w)), "a/2 snoozed; ")
	f.Advance(time.Second)
	expect(t, summary(f.RunDue(ctx, w)), "a/2 released; ")
	f.Advance(time.Hour)
	expect(t, summary(f.RunDue(ctx, w)), "a/3 finished; ")
	job, err := f.Queue().Wait(ctx, "a", time.Hour)
	if err != nil || job.State != StateFinished || string(job.Result) != `"done"` || len(job.History) != 4 {
		t.Fatalf("got %+v, %v", job, err)
	}
	f.Advance(time.Hour)
	expect(t, state(t, f, "a"), "missing")

	put(t, f, "b", WithMaxAttempts(2))
	outcomes = []error{errors.New("one"), errors.New("two")}
	expect(t, summary(f.RunDue(ctx, w)), "b/1 released; ")
	expect(t, summary(f.RunDue(ctx, w)), "b/2 released; ")
	expect(t, state(t, f, "b"), "dead 2 two")
	put(t, f, "c")
	outcomes = []error{Bury("no such shop")}
	expect(t, summary(f.RunDue(ctx, w)), "c/1 buried; ")
	expect(t, state(t, f, "c"), "dead 1 no such shop")
	put(t, f, "d", WithExpiresAfter(time.Minute), WithDelay(time.Minute))
	f.Advance(2 * time.Minute)
	expect(t, summary(f.RunDue(ctx, w)), "")
	expect(t, state(t, f, "d"), "dead 0 expired")
}

func TestTheFakeRefusesWhatTheServerRefuses(t *testing.T) {
	f, w := fakeWith(finishes)
	ctx, q := context.Background(), f.Queue()
	put(t, f, "a", WithDelay(time.Minute))
	if _, err := q.Put(ctx, "orders", 1, WithID("a")); !errors.Is(err, ErrExists) {
		t.Errorf("a taken id: %v", err)
	}
	if kept, err := q.Put(ctx, "orders", 1, WithID("a"), WithOnConflict(Keep)); err != nil || kept.State != "delayed" {
		t.Errorf("keep: %+v, %v", kept, err)
	}
	if _, err := q.Put(ctx, "mail", 1, WithID("a"), WithOnConflict(Replace)); !errors.Is(err, ErrExists) {
		t.Errorf("replace in another topic: %v", err)
	}
	if replaced := put(t, f, "a", WithOnConflict(Replace)); replaced.State != "ready" {
		t.Errorf("replace: %+v", replaced)
	}
	if cancelled, err := q.Cancel(ctx, "a", WithRemember(time.Hour)); err != nil || cancelled.State != "ready" {
		t.Errorf("cancel: %+v, %v", cancelled, err)
	}
	if _, err := q.Cancel(ctx, "a"); !errors.Is(err, ErrWrongState) {
		t.Errorf("cancel of a remembered job: %v", err)
	}
	if _, err := q.Cancel(ctx, "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("cancel of no job: %v", err)
	}
	var refused *RefusedError
	results := q.PutMany(ctx, []Put{{Topic: "orders", ID: "b"}, {Topic: "orders", Delay: -time.Second}, {Body: func() {}}})
	if results[0].Err != nil || !errors.As(results[1].Err, &refused) || refused.Field != "delay" {
		t.Errorf("got %+v", results)
	}
	if !errors.As(results[2].Err, new(*UsageError)) {
		t.Errorf("a function as body: %v", results[2].Err)
	}
	if err := w.Run(ctx); !errors.As(err, &refused) {
		t.Errorf("Run with a fake: %v", err)
	}
}

func TestTopicSettingsOfTheFakeAreDefaults(t *testing.T) {
	f, _ := fakeWith(finishes)
	ctx, priority := context.Background(), 7
	settings := TopicSettings{Priority: &priority, Backoff: BackoffList(time.Second)}
	topic, err := f.Queue().SetTopic(ctx, "orders", settings)
	if err != nil || *topic.Settings.Priority != 7 {
		t.Fatalf("got %+v, %v", topic, err)
	}
	put(t, f, "a")
	put(t, f, "b", WithPriority(1), WithMaxAttempts(5))
	a, _ := f.Queue().Get(ctx, "a")
	b, _ := f.Queue().Get(ctx, "b")
	if a.Priority != 7 || a.MaxAttempts != 2 || b.Priority != 1 || b.MaxAttempts != 5 {
		t.Errorf("got %+v and %+v", a, b)
	}
	if topic, _ = f.Queue().Topic(ctx, "orders"); topic.Ready != 2 {
		t.Errorf("got %+v", topic)
	}
}
