package delayqueue

import "sync/atomic"

// tally counts things under way. One goroutine may wait for the count to fall.
type tally struct {
	n    atomic.Int64
	fell chan struct{}
}

func newTally() *tally { return &tally{fell: make(chan struct{}, 1)} }

func (t *tally) count() int { return int(t.n.Load()) }

func (t *tally) add() { t.n.Add(1) }

func (t *tally) done(n int) {
	t.n.Add(-int64(n))
	select {
	case t.fell <- struct{}{}:
	default:
	}
}

// waitBelow waits until the count is below the limit, and reports false if end came first.
func (t *tally) waitBelow(end <-chan struct{}, limit int) bool {
	for t.count() >= limit {
		select {
		case <-t.fell:
		case <-end:
			return t.count() < limit
		}
	}
	return true
}
