package delayqueue

import (
	"encoding/json"
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestIDsAreULIDsThatSortByTime(t *testing.T) {
	// The example of the ULID specification has this time.
	id := newID(time.UnixMilli(1469922850259))
	if !regexp.MustCompile(`^01ARZ3NDEK[0-9A-HJKMNP-TV-Z]{16}$`).MatchString(id) {
		t.Fatalf("the id is %s", id)
	}
	if later := newID(time.UnixMilli(1469922850260)); later <= id {
		t.Fatalf("%s of a later millisecond sorts before %s", later, id)
	}
	if again := newID(time.UnixMilli(1469922850259)); again == id {
		t.Fatalf("two ids are %s", id)
	}
	var all [16]byte
	for i := range all {
		all[i] = 0xff
	}
	if text := base32(all); text != "7ZZZZZZZZZZZZZZZZZZZZZZZZZ" {
		t.Fatalf("128 bits are %s", text)
	}
}

func TestDurationsAreSecondsRoundedUpToMilliseconds(t *testing.T) {
	for d, expected := range map[time.Duration]string{
		0: "0", time.Second: "1", 250 * time.Millisecond: "0.25", time.Nanosecond: "0.001",
		1500*time.Microsecond + 1: "0.002", 87600 * time.Hour: "315360000",
	} {
		if text, _ := json.Marshal(seconds(d)); string(text) != expected {
			t.Errorf("%v is written as %s, expected %s", d, text, expected)
		}
	}
	for i := 0; i < 1000; i++ {
		d := time.Duration(rand.Int63n(int64(87600*time.Hour))) / time.Millisecond * time.Millisecond
		text, _ := json.Marshal(seconds(d))
		var back seconds
		if err := json.Unmarshal(text, &back); err != nil || time.Duration(back) != d {
			t.Fatalf("%v is written as %s and read as %v, %v", d, text, time.Duration(back), err)
		}
	}
}

func TestBackoffsAreWrittenAndReadInBothForms(t *testing.T) {
	list := BackoffList(2*time.Minute, 500*time.Millisecond)
	exponential := BackoffExponential(time.Second, 3, time.Hour, 0.1)
	for expected, b := range map[string]*Backoff{
		`[120,0.5]`: list,
		`[]`:        BackoffList(),
		`{"initial":1,"factor":3,"max":3600,"jitter":0.1}`: exponential,
	} {
		text, err := json.Marshal(b)
		if err != nil || string(text) != expected {
			t.Fatalf("got %s, %v, expected %s", text, err, expected)
		}
		var back Backoff
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(back); string(again) != expected {
			t.Fatalf("%s is read as %s", expected, again)
		}
	}
}

func TestAPutHasExactlyTheFieldsThatAreSet(t *testing.T) {
	p := Put{Topic: "orders", ID: "a", Body: map[string]string{"html": "<&>"}}
	for expected, options := range map[string][]PutOption{
		`{"topic":"orders","id":"a","body":{"html":"<&>"}}`: nil,
		`{"topic":"orders","id":"a","body":{"html":"<&>"},"delay":1800,"ttr":90,"max_attempts":0,"priority":0,` +
			`"finished_retention":0}`: {
			WithDelay(30 * time.Minute), WithTTR(90 * time.Second), WithMaxAttempts(0), WithPriority(0),
			WithFinishedRetention(0)},
		`{"topic":"orders","id":"b","body":{"html":"<&>"},"due_at":"2030-01-31T12:00:00Z","backoff":[60],` +
			`"on_conflict":"replace","headers":{"x":"y"},"expires_after":1,"traceparent":"00-1"}`: {
			WithID("b"), WithDueAt(time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)),
			WithBackoff(BackoffList(time.Minute)), WithOnConflict(Replace), WithHeaders(map[string]string{"x": "y"}),
			WithExpiresAfter(time.Second), WithTraceparent("00-1")},
	} {
		put := p
		for _, option := range options {
			option(&put)
		}
		r, err := put.request()
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := encode(r); string(text) != expected {
			t.Errorf("got %s, expected %s", text, expected)
		}
	}
}

func TestABatchHasAsManyItemsAsFit(t *testing.T) {
	large := strings.Repeat("x", 400)
	item := func(int) any { return large }
	for _, c := range []struct{ items, maxBytes, expected int }{
		{5, 1 << 20, 5}, {5, 1000, 2}, {5, 10, 1}, {1500, 1 << 20, 1000},
	} {
		body, n, err := encodeBatch(c.items, c.maxBytes, item)
		var batch struct{ Jobs []string }
		if err != nil || json.Unmarshal(body, &batch) != nil || n != c.expected || len(batch.Jobs) != n {
			t.Errorf("%d of %d items fit into %d bytes, expected %d; %v", n, c.items, c.maxBytes, c.expected, err)
		}
	}
}
