package delayqueue

import (
	"context"
	"encoding/json"
	"fmt"
)

// Handle registers the handler of a topic. Register all handlers before Run: the worker pops jobs
// of earlier topics first.
//
// The body is decoded with encoding/json into T. A body that does not fit T is buried, with what
// does not fit: a value of another type, and a value that is null or missing where Go has no nil,
// unless its field has omitempty. Unknown fields are ignored. Use json.RawMessage to decode the
// body yourself.
//
// nil finishes the job. Bury and Snooze have their own effects, also if they are wrapped. Every
// other error, and a panic, releases the job with the text of the error: the backoff of the job
// decides when it is tried again.
//
// The context is cancelled when the reservation is lost, and when the worker stops and its grace
// is over; Cause tells which. It has the values of the context of Run.
//
// Handle panics if the topic has a handler, or if the worker runs already.
func Handle[T any](w *Worker, topic string, handler func(ctx context.Context, job *Job[T]) error) {
	HandleResult(w, topic, func(ctx context.Context, job *Job[T]) (any, error) {
		return nil, handler(ctx, job)
	})
}

// HandleResult is Handle for a handler that returns a result, which the server keeps for producers
// that Wait for the job, if the job has a finished retention. If it has none, or the result is
// larger than 64 KiB or cannot be expressed in JSON, the job is finished without a result and the
// worker logs it. A result that encodes to null is no result.
func HandleResult[T, R any](
	w *Worker, topic string, handler func(ctx context.Context, job *Job[T]) (R, error),
) {
	w.register(topic, func(ctx context.Context, popped *poppedJob) outcome {
		job := &Job[T]{JobInfo: popped.info()}
		if err := decodeBody(popped.Body, &job.Body); err != nil {
			w.logger.Printf("delayqueue: job %s of topic %s is buried: %v", popped.ID, topic, err)
			return outcome{verb: bury, Error: cut(err.Error())}
		}
		result, err := handler(ctx, job)
		ended := outcomeOf(err)
		if err == nil {
			ended.Result = w.encodeResult(popped, result)
		}
		return ended
	})
}

// encodeResult returns nil for no result.
func (w *Worker) encodeResult(job *poppedJob, result any) json.RawMessage {
	if result == nil {
		return nil
	}
	data, err := encodeSafely(result)
	if err != nil {
		w.logger.Printf("delayqueue: error: the result of job %s of topic %s is a %T, which JSON cannot express "+
			"(%v); the job is finished without a result", job.ID, job.Topic, result, err)
		return nil
	}
	if string(data) == "null" {
		return nil
	}
	return data
}

// encodeSafely turns a panic of the value's MarshalJSON into an error: the work is done.
func encodeSafely(value any) (data json.RawMessage, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return encode(value)
}
