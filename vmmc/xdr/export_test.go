package xdr

// DefaultMaxDepth is defaultMaxDepth, for tests.
const DefaultMaxDepth = defaultMaxDepth

// ErrNaN is errNaN, for tests.
var ErrNaN = errNaN

// ErrFull is errFull, for tests.
var ErrFull = errFull

// ErrPadding is errPadding, for tests.
var ErrPadding = errPadding

// ErrTrailing is errTrailing, for tests.
var ErrTrailing = errTrailing
