package delayqueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestErrorsOfHandlersDecideTheOutcome(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("order 7: %w", err) }
	for expected, err := range map[string]error{
		`finish {}`:                                  nil,
		`release {"error":"boom"}`:                   errors.New("boom"),
		`bury {"error":"no such shop"}`:              Bury("no such shop"),
		`bury {"error":"order 7: no such shop"}`:     wrap(Bury("no such shop")),
		`bury {"error":"buried by its handler"}`:     Bury(""),
		`release {"delay":90,"count_attempt":false}`: wrap(Snooze(90 * time.Second)),
		`release {"delay":0,"count_attempt":false}`:  Snooze(-time.Second),
		`release {"error":"a\ufffdb"}`:               errors.New("a\xffb"),
	} {
		ended := outcomeOf(err)
		fields, _ := encode(ended)
		expected = strings.ReplaceAll(expected, `\ufffd`, "\ufffd")
		if got := string(ended.verb) + " " + string(fields); got != expected {
			t.Errorf("%v: got %s, expected %s", err, got, expected)
		}
	}
}

func TestLongErrorsAreCutBetweenCharacters(t *testing.T) {
	for _, character := range []string{"x", "é", "€", "😀"} {
		for prefix := 0; prefix < 4; prefix++ {
			text := cut(strings.Repeat("x", prefix) + strings.Repeat(character, maxErrorBytes))
			if len(text) > maxErrorBytes || len(text) < maxErrorBytes-7 || !utf8.ValidString(text) {
				t.Errorf("%s after %d bytes is cut to %d bytes", character, prefix, len(text))
			}
		}
	}
	if text := strings.Repeat("x", maxErrorBytes); cut(text) != text {
		t.Error("an error of the allowed length is cut")
	}
}

func TestWaitsGrowWithFullJitterAndRespectRetryAfter(t *testing.T) {
	for n, limit := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000} {
		limit *= time.Millisecond
		longest := time.Duration(0)
		for i := 0; i < 200; i++ {
			wait := retryWait(n, nil)
			if wait <= 0 || wait > limit {
				t.Fatalf("retry %d waits %v, at most %v is allowed", n, wait, limit)
			}
			if wait > longest {
				longest = wait
			}
		}
		if longest < limit/2 {
			t.Errorf("retry %d never waits longer than %v of %v", n, longest, limit)
		}
	}
	if wait := retryWait(0, &RefusedError{RetryAfter: 7 * time.Second}); wait != 7*time.Second {
		t.Errorf("Retry-After: 7 waits %v", wait)
	}
}

func TestWhichErrorsAreRetried(t *testing.T) {
	for _, c := range []struct {
		err      error
		expected bool
	}{
		{&UnavailableError{}, true},
		{&RefusedError{Status: 429, Code: "too_many_requests"}, true},
		{&RefusedError{Status: 429, Code: "topic_full"}, false},
		{&RefusedError{Status: 503, Applied: AppliedNo}, true},
		{&RefusedError{Status: 503, Applied: AppliedUnknown}, true},
		{&RefusedError{Status: 500, Applied: AppliedUnknown}, true},
		{&RefusedError{Status: 500, Applied: AppliedNo}, false},
		{&RefusedError{Status: 507, Applied: AppliedNo}, false},
		{&RefusedError{Status: 409, Applied: AppliedNo}, false},
		{&ProtocolError{Status: 404}, false},
		{&UsageError{}, false},
	} {
		if isRetryable(c.err) != c.expected {
			t.Errorf("%#v is retried: %v", c.err, !c.expected)
		}
	}
}
