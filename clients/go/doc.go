// Package delayqueue is a client of delay-queue, a durable delay queue over HTTP.
//
// A Queue puts jobs, reads them, waits for their results and cancels them. A Worker pops the jobs
// of its topics, calls the handler of each, and acknowledges what the handler returned: nil
// finishes the job, an error releases it for another attempt, Bury makes it dead, and Snooze gives
// it back for later without counting the attempt.
//
// The worker holds each job while its handler runs, cancels the handler's context when the
// reservation is lost, survives restarts of the server, and gives its jobs back when the context
// of Run is cancelled.
//
// A Verifier checks the signatures of pushes. A Fake is a queue in memory, whose clock tests move.
//
// Delivery is at least once: a handler may see a job again, so it must be idempotent.
package delayqueue
