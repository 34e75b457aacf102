package delayqueue

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The example of the Standard Webhooks specification.
const (
	webhookSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	webhookBody      = `{"test": 2432232314}`
	webhookSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	webhookTime      = 1614265330
	otherSecret      = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

func webhookHeader() http.Header {
	h := http.Header{}
	h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("webhook-timestamp", "1614265330")
	h.Set("webhook-signature", webhookSignature)
	return h
}

func TestGenuinePushesVerify(t *testing.T) {
	second := webhookHeader()
	second.Set("webhook-signature", "v2,xxx v1,AAAA v1,! "+webhookSignature)
	lower := http.Header{}
	for name, values := range webhookHeader() {
		lower[strings.ToLower(name)] = values
	}
	for name, header := range map[string]http.Header{"one": webhookHeader(), "several": second, "lower case": lower} {
		for _, secrets := range [][]string{{webhookSecret}, {otherSecret, webhookSecret}} {
			v, err := NewVerifier(secrets...)
			if err != nil {
				t.Fatal(err)
			}
			for _, seconds := range []int64{-300, 0, 300} {
				if err := v.VerifyAt(header, []byte(webhookBody), time.Unix(webhookTime+seconds, 0)); err != nil {
					t.Errorf("%s signature, %d secrets, %d s: %v", name, len(secrets), seconds, err)
				}
			}
		}
	}
}

func TestForgedAndOldPushesAreRefused(t *testing.T) {
	with := func(name, value string) http.Header {
		h := webhookHeader()
		h.Set(name, value)
		return h
	}
	for _, c := range []struct {
		header   http.Header
		body     string
		secret   string
		now      int64
		expected string
	}{
		{webhookHeader(), webhookBody + " ", webhookSecret, webhookTime, "webhook-signature"},
		{webhookHeader(), webhookBody, otherSecret, webhookTime, "webhook-signature"},
		{webhookHeader(), webhookBody, webhookSecret, webhookTime + 301, "webhook-timestamp"},
		{webhookHeader(), webhookBody, webhookSecret, webhookTime - 301, "webhook-timestamp"},
		{with("webhook-timestamp", "soon"), webhookBody, webhookSecret, webhookTime, "webhook-timestamp"},
		{with("webhook-timestamp", "-9223372036854775808"), webhookBody, webhookSecret, webhookTime, "webhook-timestamp"},
		{with("webhook-timestamp", "1614265331"), webhookBody, webhookSecret, webhookTime, "webhook-signature"},
		{with("webhook-id", "msg_x"), webhookBody, webhookSecret, webhookTime, "webhook-signature"},
		{with("webhook-id", ""), webhookBody, webhookSecret, webhookTime, "webhook-id"},
		{with("webhook-signature", "v1,"), webhookBody, webhookSecret, webhookTime, "webhook-signature"},
		{http.Header{}, webhookBody, webhookSecret, webhookTime, "webhook-id"},
	} {
		v, err := NewVerifier(c.secret)
		if err != nil {
			t.Fatal(err)
		}
		var wrong *SignatureError
		if err := v.VerifyAt(c.header, []byte(c.body), time.Unix(c.now, 0)); !errors.As(err, &wrong) ||
			wrong.Header != c.expected {
			t.Errorf("%v at %d: got %v, expected an error of %s", c.header, c.now, err, c.expected)
		}
	}
	v, _ := NewVerifier(webhookSecret)
	if err := v.Verify(webhookHeader(), []byte(webhookBody)); err == nil {
		t.Error("Verify does not use the clock")
	}
}

func TestWrongSecretsAreUsageErrorsThatDoNotShowThem(t *testing.T) {
	for _, secrets := range [][]string{
		nil, {"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, {webhookSecret, "whsec_%%secret"}, {"whsec_"},
	} {
		_, err := NewVerifier(secrets...)
		var usage *UsageError
		if !errors.As(err, &usage) || strings.Contains(err.Error(), "MfKQ") || strings.Contains(err.Error(), "%%secret") {
			t.Errorf("%v: %v", secrets, err)
		}
	}
}
