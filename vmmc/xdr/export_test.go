package xdr

// DefaultMaxDepth is defaultMaxDepth, for tests.
const DefaultMaxDepth = defaultMaxDepth
