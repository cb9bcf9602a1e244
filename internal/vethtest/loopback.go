package vethtest

import (
	"fmt"
	"os"

	"github.com/mdlayher/ethernet"
)

// Loopback returns the nth, from 1 on, of 254 IPv4 addresses of the loopback interface that only
// this process uses. All of 127.0.0.0/8 belongs to the host, and the second and third byte identify
// the process. So tests of other packages, and other runs of the same tests, do not use ports at
// these addresses. Broadcasts, however, reach all programs with the same EtherType.
func Loopback(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>8%250, pid&255, n)
}

// EtherType returns an EtherType that few other processes use, for tests that fail if they receive
// frames that they did not send.
func EtherType() ethernet.EtherType { return 0x9000 + ethernet.EtherType(os.Getpid()&0xfff) }
