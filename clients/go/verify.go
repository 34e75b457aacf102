package delayqueue

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// signatureTolerance is how far the time of a push may be from the present, in both directions.
const signatureTolerance = 5 * time.Minute

// SignatureError says why a push is not genuine.
type SignatureError struct {
	Header string // name of the header that is missing or wrong
	Detail string
}

func (e *SignatureError) Error() string { return "delayqueue: " + e.Header + ": " + e.Detail }

// Verifier checks that the server has sent a push. It is safe for concurrent use.
type Verifier struct {
	keys [][]byte
	now  func() time.Time
}

// NewVerifier returns a verifier for the secrets of a push, each "whsec_" and the base64 of its key.
// A request is genuine if one of them has signed it. It returns a *UsageError if there is no secret,
// or one has another form.
func NewVerifier(secrets ...string) (*Verifier, error) {
	if len(secrets) == 0 {
		return nil, &UsageError{Field: "secrets", Detail: "got none, at least one is needed"}
	}
	v := &Verifier{now: time.Now}
	for i, secret := range secrets {
		field := fmt.Sprintf("secrets[%d]", i)
		encoded, ok := cutPrefix(secret, "whsec_")
		if !ok {
			// The secret itself must not get into a log.
			return nil, &UsageError{Field: field, Detail: `does not begin with "whsec_"`}
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, &UsageError{Field: field, Detail: `has no base64 after "whsec_"`}
		}
		if len(key) == 0 {
			return nil, &UsageError{Field: field, Detail: `has no key after "whsec_"`}
		}
		v.keys = append(v.keys, key)
	}
	return v, nil
}

// Verify returns nil if the request with these headers and this body is genuine and at most five
// minutes old or early, else a *SignatureError. The body must have the bytes as they arrived:
// decoding and encoding it again changes them.
func (v *Verifier) Verify(header http.Header, body []byte) error {
	return v.VerifyAt(header, body, v.now())
}

// VerifyAt is Verify with the present given.
func (v *Verifier) VerifyAt(header http.Header, body []byte, now time.Time) error {
	values := map[string]string{}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		values[name] = get(header, name)
		if values[name] == "" {
			return &SignatureError{Header: name, Detail: "the header is missing"}
		}
	}
	timestamp := values["webhook-timestamp"]
	sent, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return &SignatureError{Header: "webhook-timestamp", Detail: fmt.Sprintf(
			"the header is %q, expected Unix seconds", timestamp)}
	}
	// Seconds, since a time.Duration cannot hold the distance to every time.
	age, tolerance := now.Unix()-sent, int64(signatureTolerance/time.Second)
	if age > tolerance || age < -tolerance {
		return &SignatureError{Header: "webhook-timestamp", Detail: fmt.Sprintf(
			"the time %d is more than %v from the present, %d", sent, signatureTolerance, now.Unix())}
	}
	signed := append([]byte(values["webhook-id"]+"."+timestamp+"."), body...)
	if !v.hasSigned(signed, values["webhook-signature"]) {
		return &SignatureError{Header: "webhook-signature", Detail: "no signature is by one of the secrets"}
	}
	return nil
}

// get finds a header by its name in any case, also in an http.Header that was not filled by Set.
func get(header http.Header, name string) string {
	for given, values := range header {
		if strings.EqualFold(given, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// hasSigned reports whether one of the signatures, separated by spaces, is by one of the keys.
func (v *Verifier) hasSigned(signed []byte, signatures string) bool {
	for _, key := range v.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write(signed)
		expected := mac.Sum(nil)
		for _, signature := range strings.Fields(signatures) {
			encoded, ok := cutPrefix(signature, "v1,")
			if !ok {
				continue
			}
			given, err := base64.StdEncoding.DecodeString(encoded)
			if err == nil && hmac.Equal(given, expected) {
				return true
			}
		}
	}
	return false
}

// cutPrefix is strings.CutPrefix, which Go 1.19 does not have.
func cutPrefix(text, prefix string) (string, bool) {
	return strings.TrimPrefix(text, prefix), strings.HasPrefix(text, prefix)
}
