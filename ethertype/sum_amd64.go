package ethertype

import "golang.org/x/sys/cpu"

// sumHeader returns the CRC32C of what precedes the CRC in a header. The standard
// library's takes twice as long for so few bytes, since it first looks for a word
// boundary, which the header in a ring's slot never begins at.
func sumHeader(head *[fieldCRC]byte) uint32 {
	if cpu.X86.HasSSE42 {
		return sumSSE42(head)
	}
	return sumTable(head)
}

// sumSSE42 is sumHeader by the processor's instruction for it.
//
//go:noescape
func sumSSE42(head *[fieldCRC]byte) uint32
