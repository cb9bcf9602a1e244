package trace_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/trace"
)

// open opens a ring link on one side of p and traces it to w.
func open(t *testing.T, p *vethtest.Pair, side int, w io.Writer) transport.Link {
	t.Helper()
	var l *ring.Link
	err := p.In(side, func() (err error) {
		l, err = ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, Slots: 64})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return trace.New(l, w)
}

func TestLink(t *testing.T) {
	p := vethtest.New(t, 1500)
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		return linktest.Pair{
			A: open(t, p, 0, io.Discard), B: open(t, p, 1, io.Discard), C: open(t, p, 1, io.Discard),
			Allocates: true,
		}
	})
}

func TestLines(t *testing.T) {
	p := vethtest.New(t, 1500)
	var out, in bytes.Buffer
	a, b := open(t, p, 0, &out), open(t, p, 1, &in)
	write := make([]byte, ethertype.HeaderSize+ethertype.RDMASize+4)
	copy(write, linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil))
	var h ethertype.Header
	if _, err := h.Parse(write); err != nil {
		t.Fatal(err)
	}
	h.Kind, h.Length, h.Size = ethertype.KindRDMAWrite, 4, ethertype.RDMASize+4
	h.Put(write)
	ethertype.RDMA{Addr: 0x7f00, Handle: 3}.Put(write[ethertype.HeaderSize:])
	ethertype.Seal(write)
	bad := bytes.Clone(write)
	bad[ethertype.HeaderSize-1] ^= 1 // in the CRC
	batch := []transport.Frame{{Head: write[:62], Body: [][]byte{write[62:]}}, {Head: bad}}
	if n, err := a.Send(batch); n != 2 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	views := make([][]byte, 1)
	for got := 0; got < 2; {
		n, err := b.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		if got += n; n == 0 && b.Wait(b.Now()+1e10) != nil {
			t.Fatal("Wait failed")
		}
	}
	for dir, text := range map[string]string{"tx": out.String(), "rx": in.String()} {
		want := regexp.MustCompile(`^ *\d+\.\d{6} bob0 ` + dir +
			` 02:00:00:00:00:0a/1024 > 02:00:00:00:00:0b/1024 rdma-write .* bytes 0\.\.3 of 4 to 0x7f00 handle 0x3\n` +
			` *\d+\.\d{6} bob0 ` + dir + ` 02:00:00:00:00:0a/1024 > .* rdma-write .* malformed: CRC32C does not match .*\n$`)
		if !want.MatchString(text) {
			t.Errorf("%s:\n%s", dir, text)
		}
	}
}

// broken fails after its first write.
type broken struct{ writes int }

func (b *broken) Write(p []byte) (int, error) {
	if b.writes++; b.writes > 1 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestBrokenWriter(t *testing.T) {
	p := vethtest.New(t, 1500)
	w := new(broken)
	a := open(t, p, 0, w)
	f := linktest.NewFrame(a.Info(), a.Info(), 1024, nil)
	for range 4 {
		if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
	}
	if w.writes != 2 {
		t.Errorf("%d writes, want none after the one that failed", w.writes)
	}
	if !strings.HasPrefix(a.Info().Driver, "trace+") {
		t.Errorf("Driver = %q", a.Info().Driver)
	}
}
