package vmmc

// ErrOverlap is errOverlap, for tests.
var ErrOverlap = errOverlap

// ErrUnimported is errUnimported, for tests.
var ErrUnimported = errUnimported
