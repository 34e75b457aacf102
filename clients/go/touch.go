package delayqueue

import (
	"errors"
	"net/http"
	"net/url"
	"time"
)

// touch extends the reservation, and arms the timer for the next touch.
func (h *heldJob) touch() {
	h.mu.Lock()
	answered, remaining := h.answered, time.Until(h.until)
	h.mu.Unlock()
	if answered {
		return
	}
	if remaining <= 0 {
		h.lose("its TTR ended before a touch succeeded")
		return
	}
	timeout := remaining
	if timeout > answerTimeout {
		timeout = answerTimeout
	}
	sent := time.Now()
	body, _ := encode(map[string]string{"reservation": h.Reservation})
	path := "/jobs/" + url.PathEscape(h.ID) + "/touch"
	err := h.queue.send(h.requests, request{http.MethodPost, path, body, timeout}, nil)
	h.outage.note(sent, err)
	var refused *RefusedError
	if errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusConflict) {
		h.lose(refused.Error())
		return
	}
	h.touched(sent, err)
}

// touched arms the timer after a touch that was sent at this time.
func (h *heldJob) touched(sent time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answered {
		return
	}
	if err == nil {
		ttr := time.Duration(h.TTR)
		h.until, h.failures = sent.Add(ttr), 0
		h.timer.Reset(time.Until(sent.Add(ttr / 3)))
		return
	}
	wait := retryWait(h.failures, err)
	if remaining := time.Until(h.until); wait > remaining {
		wait = remaining
	}
	h.failures++
	h.timer.Reset(wait)
}

// lose cancels the handler. Nothing is acknowledged. After the handler has returned, it does
// nothing: the answer to the acknowledgement decides.
func (h *heldJob) lose(reason string) {
	if h.cancelWith(ErrReservationLost) {
		h.logger.Printf("delayqueue: warning: job %s of topic %s lost its reservation while its handler runs, which "+
			"is cancelled: %s", h.ID, h.Topic, reason)
	}
}
