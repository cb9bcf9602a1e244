package splitc

// ForCredit is forCredit, for tests.
const ForCredit = forCredit

// ErrProcessor is errProcessor, for tests.
var ErrProcessor = errProcessor

// ErrNull is errNull, for tests.
var ErrNull = errNull

// ErrOutside is errOutside, for tests.
var ErrOutside = errOutside

// ErrFreed is errFreed, for tests.
var ErrFreed = errFreed

// ErrUnaligned is errUnaligned, for tests.
var ErrUnaligned = errUnaligned

// ErrType is errType, for tests.
var ErrType = errType

// ErrOverlap is errOverlap, for tests.
var ErrOverlap = errOverlap

// MinHeapSize is minHeapSize, for tests.
const MinHeapSize = minHeapSize
