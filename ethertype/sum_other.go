//go:build !amd64

package ethertype

// sumHeader returns the CRC32C of what precedes the CRC in a header.
func sumHeader(head *[fieldCRC]byte) uint32 { return sumTable(head) }
