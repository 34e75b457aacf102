package delayqueue

import (
	"crypto/rand"
	"time"
)

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// newID returns a ULID: 48 bits of Unix milliseconds and 80 random bits, in 26 characters of
// Crockford's base 32. Ids of later milliseconds sort after those of earlier ones.
func newID(now time.Time) string {
	var value [16]byte
	milliseconds := uint64(now.UnixMilli())
	for i := 0; i < 6; i++ {
		value[i] = byte(milliseconds >> (40 - 8*i))
	}
	if _, err := rand.Read(value[6:]); err != nil {
		panic("delayqueue: the operating system gives no random bytes: " + err.Error())
	}
	return base32(value)
}

// base32 writes the 128 bits as 26 characters, the first of which has only three bits.
func base32(value [16]byte) string {
	var text [26]byte
	high, low := uint64(0), uint64(0)
	for i := 0; i < 8; i++ {
		high = high<<8 | uint64(value[i])
		low = low<<8 | uint64(value[8+i])
	}
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = crockford[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(text[:])
}
