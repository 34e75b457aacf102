// Command driver runs the library for the suite in clients/scenarios; clients/CONTRACT.md describes
// its commands.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	delayqueue "example.com/delay-queue/clients/go"
)

// driver reads commands from standard input and writes replies and events to standard output.
type driver struct {
	queue    *delayqueue.Queue
	queueErr error // why there is no queue

	mu     sync.Mutex
	output *bufio.Writer
	gates  map[string]chan struct{}
	worker *runningWorker // nil without one
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	d := &driver{output: bufio.NewWriter(os.Stdout), gates: map[string]chan struct{}{}}
	var options []delayqueue.QueueOption
	if token := os.Getenv("DELAY_QUEUE_TOKEN"); token != "" {
		options = append(options, delayqueue.WithToken(token))
	}
	if text := os.Getenv("DELAY_QUEUE_RETRY_FOR"); text != "" {
		limit, err := strconv.ParseFloat(text, 64)
		if err != nil {
			log.Fatalf("DELAY_QUEUE_RETRY_FOR is %q, expected a number of seconds", text)
		}
		options = append(options, delayqueue.WithRetryFor(duration(limit)))
	}
	d.queue, d.queueErr = delayqueue.New(os.Getenv("DELAY_QUEUE_URL"), options...)

	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	d.write(map[string]any{"event": "ready", "pid": os.Getpid()})
	ended := make(chan struct{})
	go func() {
		d.readCommands()
		close(ended)
	}()
	select {
	case <-signalled.Done():
	case <-ended:
	}
	d.stopWorker()
}

// readCommands runs each command in a goroutine of its own, until standard input ends.
func (d *driver) readCommands() {
	input := bufio.NewReader(os.Stdin)
	var commands sync.WaitGroup
	defer commands.Wait()
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			log.Fatalf("a command is not JSON: %v: %s", err, line)
		}
		commands.Add(1)
		go func() {
			defer commands.Done()
			value, err := d.run(&c)
			if err != nil {
				d.write(map[string]any{"n": c.N, "error": describe(err)})
				return
			}
			d.write(map[string]any{"n": c.N, "ok": value})
		}()
	}
}

// write writes a line.
func (d *driver) write(value any) {
	data, err := json.Marshal(value)
	if err != nil {
		log.Fatalf("cannot write %v: %v", value, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.output.Write(data)
	d.output.WriteByte('\n')
	d.output.Flush()
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
