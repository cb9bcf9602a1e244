package udp

import (
	"errors"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// TestShortage: a small buffer is told of, with the line that enlarges it.
func TestShortage(t *testing.T) {
	l := &Link{have: 2 * 212992}
	var short *bufferError
	err := l.Shortage()
	if !errors.As(err, &short) || short.Have != 212992 || short.Need != receiveEnough ||
		!strings.Contains(err.Error(), "sysctl -w net.core.rmem_max=4194304") {
		t.Errorf("Shortage = %v", err)
	}
	l.have = 2 * receiveEnough
	if err := l.Shortage(); err != nil {
		t.Errorf("Shortage = %v of a buffer that is large enough", err)
	}
}

// TestNobodyToHear: a broadcast where there is neither multicast nor a peer is
// dropped and counted, and nothing is sent for it.
func TestNobodyToHear(t *testing.T) {
	l, err := Open(t.Context(), &Config{Interface: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	group := l.group
	l.group = -1
	defer func() { l.group = group }()
	f := transport.Frame{Head: make([]byte, ethertype.HeaderSize)}
	h := ethertype.Header{Dst: ethertype.Broadcast, Src: l.info.MAC, Type: l.info.EtherType, SrcPort: l.info.Ports.Lo}
	h.Put(f.Head)
	if n, err := l.Send([]transport.Frame{f, f}); n != 2 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	if st := l.Stats(); st.TxDrops != 2 || st.TxFrames != 0 || st.TxCalls != 0 {
		t.Errorf("counted %+v", st)
	}
}

// TestNoSegmentation: when the kernel refuses to cut messages up, each frame is
// sent by itself from then on.
func TestNoSegmentation(t *testing.T) {
	l, err := Open(t.Context(), &Config{Interface: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, errno := range []unix.Errno{unix.EIO, unix.EINVAL} {
		l.tx.segments = true
		if took, more, err := l.failed(errno, 2); took != 0 || !more || err != nil || l.tx.segments {
			t.Errorf("%v: %d, %v, %v, segments %v; want to try again without", errno, took, more, err, l.tx.segments)
		}
	}
	if took, more, err := l.failed(unix.EPERM, 3); took != 3 || !more || err != nil || l.Stats().TxDrops != 3 {
		t.Errorf("EPERM: %d, %v, %v, counted %+v; want 3 drops", took, more, err, l.Stats())
	}
}
