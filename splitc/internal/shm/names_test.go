package shm

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestNamesSayNothing: a user who sees the name of one rank's socket, which the kernel shows to
// everybody, does not know the names of other ranks, and cannot bind these before.
func TestNamesSayNothing(t *testing.T) {
	secret := fmt.Sprintf("%016x/%d", uint64(0xabcdef0123456789), os.Getpid())
	s, err := newSockets(secret, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	list, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	own := s.address(0).Name
	if !strings.Contains(string(list), own) {
		t.Errorf("the kernel does not list %q", own)
	}
	if other := s.address(1).Name; other[:len(other)-1] == own[:len(own)-1] {
		t.Errorf("ranks 0 and 1 are %q and %q", own, other)
	}
	if strings.Contains(string(list), "abcdef0123456789") {
		t.Error("the kernel lists what the names are made of")
	}
}
