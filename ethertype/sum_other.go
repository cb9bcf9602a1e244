//go:build !amd64

package ethertype

// sumHeader returns the CRC32C of the part of a header before the CRC.
func sumHeader(head *[fieldCRC]byte) uint32 { return sumTable(head) }
