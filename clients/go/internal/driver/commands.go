package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	delayqueue "example.com/delay-queue/clients/go"
)

// command is a line of standard input. Each command has some of the fields.
type command struct {
	N           int                      `json:"n"`
	Do          string                   `json:"do"`
	Put         *putFields               `json:"put"`
	Puts        []*putFields             `json:"puts"`
	ID          string                   `json:"id"`
	Wait        *float64                 `json:"wait"`
	Remember    *float64                 `json:"remember"`
	Topic       string                   `json:"topic"`
	Settings    delayqueue.TopicSettings `json:"settings"`
	Secrets     []string                 `json:"secrets"`
	Headers     map[string]string        `json:"headers"`
	Body        string                   `json:"body"`
	Now         int64                    `json:"now"`
	Topics      []string                 `json:"topics"`
	Concurrency int                      `json:"concurrency"`
	Grace       *float64                 `json:"grace"`
	Types       bool                     `json:"types"`
	Quiet       bool                     `json:"quiet"`
	Gate        string                   `json:"gate"`
	Jobs        int                      `json:"jobs"`
	Steps       []step                   `json:"steps"`
}

type object = map[string]any

// run returns the value of the reply.
func (d *driver) run(c *command) (any, error) {
	ctx := context.Background()
	switch c.Do {
	case "verify":
		return verify(c)
	case "open":
		d.open(c.Gate)
		return object{}, nil
	case "fake":
		return runFake(c.Steps)
	case "stop":
		d.stopWorker()
		return object{}, nil
	}
	if d.queueErr != nil {
		return nil, d.queueErr
	}
	switch c.Do {
	case "put":
		return d.queue.Put(ctx, c.Put.Topic, c.Put.Body, c.Put.options()...)
	case "put_many":
		return d.putMany(ctx, c.Puts), nil
	case "get":
		return nullIfMissing(get(ctx, d.queue, c.ID, c.Wait))
	case "cancel":
		return nullIfMissing(cancel(ctx, d.queue, c.ID, c.Remember))
	case "topic_get":
		return d.queue.Topic(ctx, c.Topic)
	case "topic_set":
		return d.queue.SetTopic(ctx, c.Topic, c.Settings)
	case "work":
		return object{}, d.startWorker(c)
	case "bare":
		return object{}, bare(c)
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func (d *driver) putMany(ctx context.Context, fields []*putFields) []object {
	var puts []delayqueue.Put
	for _, f := range fields {
		put := delayqueue.Put{Topic: f.Topic, Body: f.Body}
		for _, option := range f.options() {
			option(&put)
		}
		puts = append(puts, put)
	}
	var replies []object
	for _, result := range d.queue.PutMany(ctx, puts) {
		if result.Err != nil {
			replies = append(replies, object{"error": describe(result.Err)})
			continue
		}
		replies = append(replies, object{"ok": result.PutResult})
	}
	return replies
}

func get(ctx context.Context, q *delayqueue.Queue, id string, wait *float64) (any, error) {
	if wait != nil {
		return q.Wait(ctx, id, duration(*wait))
	}
	return q.Get(ctx, id)
}

func cancel(ctx context.Context, q *delayqueue.Queue, id string, remember *float64) (any, error) {
	var options []delayqueue.CancelOption
	if remember != nil {
		options = append(options, delayqueue.WithRemember(duration(*remember)))
	}
	result, err := q.Cancel(ctx, id, options...)
	if err != nil {
		return nil, err
	}
	if result.State == "" {
		return object{"id": result.ID, "state": nil}, nil
	}
	return result, nil
}

func nullIfMissing(value any, err error) (any, error) {
	if errors.Is(err, delayqueue.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

func verify(c *command) (any, error) {
	verifier, err := delayqueue.NewVerifier(c.Secrets...)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value)
	}
	return true, verifier.VerifyAt(header, []byte(c.Body), time.Unix(c.Now, 0))
}

// describe returns the error as the contract writes it.
func describe(err error) object {
	var refused *delayqueue.RefusedError
	var unavailable *delayqueue.UnavailableError
	var protocol *delayqueue.ProtocolError
	var usage *delayqueue.UsageError
	var signature *delayqueue.SignatureError
	switch {
	case errors.As(err, &refused):
		described := object{"kind": "refused", "message": err.Error(), "status": refused.Status,
			"code": refused.Code, "field": nil, "applied": refused.Applied, "state": refused.State}
		if refused.Field != "" {
			described["field"] = refused.Field
		}
		return described
	case errors.As(err, &unavailable):
		return object{"kind": "unavailable", "message": err.Error(), "applied": unavailable.Applied}
	case errors.As(err, &protocol):
		return object{"kind": "protocol", "message": err.Error(), "status": protocol.Status}
	case errors.As(err, &usage):
		return object{"kind": "usage", "message": err.Error(), "field": usage.Field}
	case errors.As(err, &signature):
		return object{"kind": "signature", "message": err.Error()}
	}
	return object{"kind": "other", "message": err.Error()}
}
