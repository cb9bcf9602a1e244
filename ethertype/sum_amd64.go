package ethertype

import "golang.org/x/sys/cpu"

// sumHeader returns the CRC32C of the part of a header before the CRC. The standard library takes
// twice as long for so few bytes: it first looks for a word boundary, and the header in a slot of a
// ring never begins at one.
func sumHeader(head *[fieldCRC]byte) uint32 {
	if cpu.X86.HasSSE42 {
		return sumSSE42(head)
	}
	return sumTable(head)
}

// sumSSE42 is sumHeader with the processor's CRC32 instruction.
//
//go:noescape
func sumSSE42(head *[fieldCRC]byte) uint32
