package delayqueue

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

const lateJob = `{"jobs":[{"id":"late","topic":"orders","body":null,"attempt":1,"ttr":60,"reservation":"r-late"}]}`

// stopWhileAnswered stops a worker while a pop waits. The server answers with a job only when it
// sees that the client has stopped. The function returns what the worker does with the job.
func stopWhileAnswered(t *testing.T, start func(*httptest.Server)) (ended string, protocol string) {
	popped, ends, protocols := make(chan struct{}), make(chan string, 1), make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/topics/orders/pop" {
			body, _ := io.ReadAll(r.Body)
			ends <- r.URL.Path + " " + string(body)
			io.WriteString(w, `{"results":[{"status":200}]}`)
			return
		}
		protocols <- r.Proto
		close(popped)
		<-r.Context().Done()
		io.WriteString(w, lateJob)
	}))
	server.EnableHTTP2 = true
	start(server)
	defer server.Close()
	transport := newTransport()
	if config := server.Client().Transport.(*http.Transport).TLSClientConfig; config != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: config.RootCAs}
	}
	q, err := New(server.URL, WithTransport(transport), WithLogger(&lines{}))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorker(q)
	Handle(w, "orders", func(context.Context, *Job[any]) error { return nil })
	ctx, stop := context.WithCancel(context.Background())
	returned := make(chan error, 1)
	go func() { returned <- w.Run(ctx) }()
	next(t, popped)
	stop()
	if err := next(t, returned); err != nil {
		t.Fatal(err)
	}
	select {
	case ended = <-ends:
	default:
	}
	return ended, <-protocols
}

func TestAJobWhoseAnswerIsOnItsWayWhenTheWorkerStopsIsGivenBack(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"without TLS": (*httptest.Server).Start, "with TLS": (*httptest.Server).StartTLS,
	} {
		t.Run(name, func(t *testing.T) {
			ended, protocol := stopWhileAnswered(t, start)
			expect(t, ended, `/v1/batch/release {"jobs":[{"id":"late","reservation":"r-late","delay":0,`+
				`"count_attempt":false}`+"\n]}")
			expect(t, protocol, "HTTP/1.1")
		})
	}
}
