package delayqueue

// Version is the version of this library.
const Version = "0.1.0"
