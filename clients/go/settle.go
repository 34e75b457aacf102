package delayqueue

import (
	"errors"
	"net/http"
)

func isTooLarge(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Status == http.StatusRequestEntityTooLarge
}

// settle handles the result of sending an outcome. It reports whether to repeat the outcome, and
// whether to wait before that.
func (a *acknowledger) settle(item *acknowledgement, err error) (repeat, wait bool) {
	var refused *RefusedError
	if err == nil {
		return false, false
	}
	if !errors.As(err, &refused) || isRetryable(err) {
		item.unknown = item.unknown || appliedOf(err) == AppliedUnknown
		return true, true
	}
	switch {
	case refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden:
		// The pops fail too, and the worker has logged it. The token may be repaired.
		return true, true
	case item.Result != nil && (refused.Code == "result_not_kept" || isTooLarge(err)):
		a.warnResult(item, refused)
		item.Result = nil
		return true, false
	case refused.Status != http.StatusNotFound && refused.Status != http.StatusConflict:
		a.logger.Printf("delayqueue: error: the %s of job %s of topic %s is refused, so the job comes back after "+
			"its TTR: %v", a.verb, item.ID, item.job.Topic, err)
	case item.unknown:
		// An earlier attempt was applied.
	default:
		a.logger.Printf("delayqueue: warning: job %s of topic %s lost its reservation before its %s, which has no "+
			"effect: %v", item.ID, item.job.Topic, a.verb, err)
	}
	return false, false
}

// warnResult logs once for each topic and reason that results are dropped.
func (a *acknowledger) warnResult(item *acknowledgement, refused *RefusedError) {
	if _, warned := a.warned.LoadOrStore(item.job.Topic+" "+refused.Code, true); warned {
		return
	}
	a.logger.Printf("delayqueue: warning: job %s of topic %s, and others of the topic, is finished without its result: %s",
		item.ID, item.job.Topic, refused.Detail)
}
