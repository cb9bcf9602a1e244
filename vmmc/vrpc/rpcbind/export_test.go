package rpcbind

// SemanticsDatagram is semanticsDatagram, for tests.
const SemanticsDatagram = semanticsDatagram

// SemanticsOrderlyStream is semanticsOrderlyStream, for tests.
const SemanticsOrderlyStream = semanticsOrderlyStream

// Program is program, for tests.
const Program = program

// Version2 is version2, for tests.
const Version2 = version2

// Version3 is version3, for tests.
const Version3 = version3

// Version4 is version4, for tests.
const Version4 = version4

// ErrAddr is errAddr, for tests.
var ErrAddr = errAddr

// ParseAddr is parseAddr, for tests.
var ParseAddr = parseAddr

// UniversalAddr is universalAddr, for tests.
var UniversalAddr = universalAddr

// BroadcastAddrs is broadcastAddrs, for tests.
var BroadcastAddrs = broadcastAddrs
