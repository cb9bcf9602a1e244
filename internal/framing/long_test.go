package framing

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestShim: the shim is what the kernel takes for the headers of TCP over IPv4.
func TestShim(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, ShimSize+1)
	PutShim(b)
	want := make([]byte, ShimSize)
	want[0], want[9], want[32] = 0x45, 6, 0x50
	if !bytes.Equal(b[:ShimSize], want) || b[ShimSize] != 0xff {
		t.Errorf("shim % x", b)
	}
	if ShimVersion == ethertype.Version {
		t.Error("the shim looks like a header")
	}
	if whole := ethertype.EthernetSize + ShimSize + LongMTU; whole >= 1<<16 {
		t.Errorf("a long frame has %d bytes", whole)
	}
}
