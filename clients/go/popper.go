package delayqueue

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// abortTimeout is the time that the server has to answer a pop that was aborted.
const abortTimeout = time.Second

// popper makes the pops of a worker, one at a time.
//
// A pop that is aborted by closing its connection may lose jobs whose answer is on its way, until
// their TTR ends. So the popper closes only its own half of the connection: the server then either
// gives the jobs back and closes the other half, or its answer arrives.
type popper struct {
	queue   *Queue // with connections of its own
	path    string
	timeout time.Duration
	context context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	stopping bool
	conn     net.Conn // connection of the pop under way
}

func newPopper(w *Worker) *popper {
	topics := make([]string, len(w.topics))
	for i, topic := range w.topics {
		topics[i] = url.PathEscape(topic)
	}
	query := url.Values{"wait": {parameter(w.wait)}, "consumer": {w.consumer}}
	p := &popper{path: "/topics/" + strings.Join(topics, ",") + "/pop?" + query.Encode() + "&count=",
		timeout: w.wait + answerTimeout}
	own := *w.queue
	if shared, ok := own.transport.(*http.Transport); ok {
		own.transport = shared.Clone()
	}
	p.queue = &own
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: p.connected})
	p.context, p.cancel = context.WithCancel(ctx)
	return p
}

// pop waits for up to count jobs.
func (p *popper) pop(count int) ([]*poppedJob, error) {
	var answer struct {
		Jobs []*poppedJob `json:"jobs"`
	}
	path := p.path + strconv.Itoa(count)
	err := p.queue.send(p.context, request{http.MethodGet, path, nil, p.timeout}, &answer)
	p.mu.Lock()
	p.conn = nil
	p.mu.Unlock()
	return answer.Jobs, err
}

// connected is called before a pop is written to its connection.
func (p *popper) connected(info httptrace.GotConnInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = info.Conn
	if p.stopping {
		closeWrite(p.conn)
		p.cancel()
	}
}

// stop aborts the pop under way, if there is one, and all later ones.
func (p *popper) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.conn == nil || !closeWrite(p.conn) {
		p.cancel()
		return
	}
	time.AfterFunc(abortTimeout, p.cancel)
}

func (p *popper) close() {
	p.cancel()
	if own, ok := p.queue.transport.(*http.Transport); ok {
		own.CloseIdleConnections()
	}
}

// closeWrite closes the client's half of a connection that serves a single request, and reports
// whether it could.
func closeWrite(conn net.Conn) bool {
	if encrypted, ok := conn.(*tls.Conn); ok && encrypted.ConnectionState().NegotiatedProtocol == "h2" {
		return false
	}
	half, ok := conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}
