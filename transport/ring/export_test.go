package ring

// ErrNoLong is errNoLong, for tests.
var ErrNoLong = errNoLong
