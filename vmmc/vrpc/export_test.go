package vrpc

// ErrTooLarge is errTooLarge, for tests.
var ErrTooLarge = errTooLarge
