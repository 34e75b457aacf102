package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	delayqueue "example.com/delay-queue/clients/go"
)

// step is a step of a script for the fake.
type step struct {
	Put     *putFields `json:"put"`
	Advance *float64   `json:"advance"`
	Run     bool       `json:"run"`
	Get     *string    `json:"get"`
	Cancel  *string    `json:"cancel"`
}

// runFake runs the steps against a new fake and returns the result of each.
func runFake(steps []step) (any, error) {
	fake := delayqueue.NewFake(time.Now().Truncate(time.Millisecond))
	results := []any{}
	for _, s := range steps {
		result, err := s.run(fake)
		if err != nil {
			result = object{"error": describe(err)}
		}
		results = append(results, result)
	}
	return results, nil
}

func (s *step) run(fake *delayqueue.Fake) (any, error) {
	ctx := context.Background()
	switch {
	case s.Put != nil:
		return fake.Queue().Put(ctx, s.Put.Topic, s.Put.Body, s.Put.options()...)
	case s.Advance != nil:
		fake.Advance(duration(*s.Advance))
		return nil, nil
	case s.Get != nil:
		return nullIfMissing(getFromFake(ctx, fake, *s.Get))
	case s.Cancel != nil:
		return nullIfMissing(cancel(ctx, fake.Queue(), *s.Cancel, nil))
	}
	return runDue(ctx, fake), nil
}

func getFromFake(ctx context.Context, fake *delayqueue.Fake, id string) (any, error) {
	job, err := fake.Queue().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	found := object{"id": job.ID, "state": job.State, "attempt": job.Attempt, "error": nil, "result": nil}
	if job.Error != "" {
		found["error"] = job.Error
	}
	if job.Result != nil {
		found["result"] = job.Result
	}
	return found, nil
}

// runDue runs the due jobs of all topics that the script may use.
func runDue(ctx context.Context, fake *delayqueue.Fake) any {
	w := delayqueue.NewWorker(fake.Queue())
	for _, topic := range fake.Topics() {
		delayqueue.HandleResult(w, topic, func(_ context.Context, job *delayqueue.Job[json.RawMessage]) (any, error) {
			var i instruction
			if err := json.Unmarshal(job.Body, &i); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
				return nil, err
			}
			return i.follow()
		})
	}
	runs := []object{}
	for _, run := range fake.RunDue(ctx, w) {
		runs = append(runs, object{"id": run.ID, "attempt": run.Attempt, "outcome": run.Outcome})
	}
	return runs
}
