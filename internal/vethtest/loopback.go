package vethtest

import (
	"fmt"
	"os"

	"github.com/mdlayher/ethernet"
)

// Loopback returns the nth of 254 IPv4 addresses of the loopback that are this process's
// alone, n from 1 on: all of 127.0.0.0/8 is the host's own, and the second and third byte
// tell the process. So tests of other packages, and other runs of the same tests, neither
// have ports at these addresses nor take those that become free. Broadcasts are heard by
// all who have the EtherType.
func Loopback(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>8%250, pid&255, n)
}

// EtherType returns one that few other processes have, for tests that take what they did
// not send for a fault.
func EtherType() ethernet.EtherType { return 0x9000 + ethernet.EtherType(os.Getpid()&0xfff) }
