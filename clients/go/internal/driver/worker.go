package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	delayqueue "example.com/delay-queue/clients/go"
)

// runningWorker is the worker of the driver.
type runningWorker struct {
	stop  context.CancelFunc
	ended chan struct{} // closed when Run has returned
}

func (d *driver) startWorker(c *command) error {
	options := []delayqueue.WorkerOption{delayqueue.WithConcurrency(c.Concurrency)}
	if c.Grace != nil {
		options = append(options, delayqueue.WithGrace(duration(*c.Grace)))
	}
	if c.Wait != nil {
		options = append(options, delayqueue.WithPopWait(duration(*c.Wait)))
	}
	w := delayqueue.NewWorker(d.queue, options...)
	for _, topic := range c.Topics {
		d.handle(w, topic, c)
	}
	ctx, stop := context.WithCancel(context.Background())
	running := &runningWorker{stop: stop, ended: make(chan struct{})}
	d.mu.Lock()
	busy := d.worker != nil
	if !busy {
		d.worker = running
	}
	d.mu.Unlock()
	if busy {
		stop()
		return errors.New("a worker runs already")
	}
	go func() {
		event := object{"event": "worker_ended"}
		if err := w.Run(ctx); err != nil {
			event["error"] = describe(err)
		}
		d.write(event)
		d.mu.Lock()
		d.worker = nil
		d.mu.Unlock()
		close(running.ended)
	}()
	return nil
}

// stopWorker returns when Run has returned.
func (d *driver) stopWorker() {
	d.mu.Lock()
	running := d.worker
	d.mu.Unlock()
	if running != nil {
		running.stop()
		<-running.ended
	}
}

// order is the type of bodies with "types".
type order struct {
	Order  string `json:"order"`
	Amount int64  `json:"amount"`
}

func (d *driver) handle(w *delayqueue.Worker, topic string, c *command) {
	switch {
	case c.Quiet:
		delayqueue.Handle(w, topic, func(context.Context, *delayqueue.Job[json.RawMessage]) error { return nil })
	case c.Types:
		delayqueue.Handle(w, topic, func(_ context.Context, job *delayqueue.Job[order]) error {
			d.started(&job.JobInfo)
			d.ended(&job.JobInfo)
			return nil
		})
	default:
		delayqueue.HandleResult(w, topic, func(ctx context.Context, job *delayqueue.Job[json.RawMessage]) (any, error) {
			d.started(&job.JobInfo)
			var i instruction
			// A body that is no object finishes without a value.
			_ = json.Unmarshal(job.Body, &i)
			if err := d.await(ctx, &i); err != nil {
				d.write(object{"event": "cancelled", "id": job.ID, "attempt": job.Attempt})
				return nil, err
			}
			d.ended(&job.JobInfo)
			return i.follow()
		})
	}
}

func (d *driver) started(job *delayqueue.JobInfo) {
	event := object{"event": "started", "id": job.ID, "topic": job.Topic, "attempt": job.Attempt,
		"due_at": job.DueAt, "at": time.Now().UnixMilli()}
	if job.Traceparent != "" {
		event["traceparent"] = job.Traceparent
	}
	if job.Headers != nil {
		event["headers"] = job.Headers
	}
	d.write(event)
}

func (d *driver) ended(job *delayqueue.JobInfo) {
	d.write(object{"event": "ended", "id": job.ID, "attempt": job.Attempt})
}

// instruction is the body of a job: what its handler does.
type instruction struct {
	Then   string          `json:"then"`
	Value  json.RawMessage `json:"value"`
	Text   string          `json:"text"`
	Reason string          `json:"reason"`
	Delay  float64         `json:"delay"`
	After  float64         `json:"after"`
	Gate   string          `json:"gate"`
}

// follow returns what the handler returns.
func (i *instruction) follow() (any, error) {
	switch i.Then {
	case "finish":
		return i.Value, nil
	case "raise":
		return nil, errors.New(i.Text)
	case "bury":
		return nil, fmt.Errorf("%w", delayqueue.Bury(i.Reason))
	case "snooze":
		return nil, fmt.Errorf("not yet: %w", delayqueue.Snooze(duration(i.Delay)))
	case "unencodable":
		return make(chan int), nil
	case "throw":
		panic(i)
	}
	return nil, nil
}
