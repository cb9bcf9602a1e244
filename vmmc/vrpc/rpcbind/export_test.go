package rpcbind

// SemanticsDatagram is semanticsDatagram, for tests.
const SemanticsDatagram = semanticsDatagram

// SemanticsOrderlyStream is semanticsOrderlyStream, for tests.
const SemanticsOrderlyStream = semanticsOrderlyStream
