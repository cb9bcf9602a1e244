package stream_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

// stranger is a VI that sets up streams but does not follow the protocol's rules.
type stranger struct {
	nic  *vipl.NIC
	vi   *vipl.VI
	mem  []byte
	h    vipl.MemHandle
	peer flow.Hello
}

// newStranger connects a stranger to l. change modifies its greeting.
func newStranger(t *testing.T, l *stream.Listener, change func(hello []byte)) (*stranger, error) {
	t.Helper()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	s := &stranger{nic: nic}
	if s.mem, s.h, err = nic.AllocMem(flow.MinRing+4096, &vipl.MemAttributes{EnableRDMAWrite: true}); err != nil {
		t.Fatal(err)
	}
	if s.vi, err = nic.CreateVI(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	room := s.mem[flow.MinRing:][:flow.HelloSize]
	for range flow.Depth {
		if err := s.vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: room, Handle: s.h}}}); err != nil {
			t.Fatal(err)
		}
	}
	var hello [flow.HelloSize]byte
	(&flow.Hello{Size: flow.MinRing, Handle: uint32(s.h), Addr: vipl.VirtualAddress(s.mem)}).Put(hello[:])
	change(hello[:])
	if err := s.vi.Connect(within(t), l.Addr().(stream.Addr).Addr, hello[:]); err != nil {
		return s, err
	}
	d, err := s.vi.RecvWait(within(t))
	if err == nil {
		s.peer, err = flow.ParseHello(room[:d.Length])
	}
	return s, err
}

// write writes n bytes into the peer's ring, with a word.
func (s *stranger) write(t *testing.T, at uint64, n int, w flow.Word) {
	t.Helper()
	d := &vipl.Descriptor{
		Op: vipl.OpRDMAWrite, Remote: vipl.RemoteSegment{Addr: s.peer.Addr + at, Handle: vipl.MemHandle(s.peer.Handle)},
		HasImmediate: true, Immediate: uint32(w),
	}
	if n > 0 {
		d.Segs = []vipl.Segment{{Data: s.mem[:n], Handle: s.h}}
	}
	if err := s.vi.PostSend(d); err != nil {
		t.Fatal(err)
	}
}

// TestForgedMessages: a forged length, credit, end or kind ends the peer's own stream, and is
// counted. Data that arrived before can be read.
func TestForgedMessages(t *testing.T) {
	credit := flow.Word(flow.Credit) << 30
	for name, send := range map[string]func(t *testing.T, s *stranger){
		"a length that was not written": func(t *testing.T, s *stranger) { s.write(t, 3, 4, flow.DataWord(5)) },
		"no bytes":                      func(t *testing.T, s *stranger) { s.write(t, 3, 0, flow.DataWord(0)) },
		"more than there is room":       func(t *testing.T, s *stranger) { s.write(t, 0, flow.MinRing, flow.DataWord(flow.MinRing)) },
		"credit for nothing":            func(t *testing.T, s *stranger) { s.write(t, 0, 0, credit|1<<22|1) },
		"credit of nothing":             func(t *testing.T, s *stranger) { s.write(t, 0, 0, credit) },
		"an end with data":              func(t *testing.T, s *stranger) { s.write(t, 3, 2, flow.EndWord) },
		"an unknown kind":               func(t *testing.T, s *stranger) { s.write(t, 3, 2, 77) },
		"a second greeting": func(t *testing.T, s *stranger) {
			if err := s.vi.PostSend(&vipl.Descriptor{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, stream.Config{ReadBuffer: flow.MinRing})
			l := listen(t, h, "")
			s, err := newStranger(t, l, func([]byte) {})
			if err != nil {
				t.Fatal(err)
			}
			c, err := l.AcceptStream()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			copy(s.mem, "abc")
			s.write(t, 0, 3, flow.DataWord(3))
			send(t, s)
			got, err := io.ReadAll(c)
			if string(got) != "abc" || !errors.Is(err, stream.ErrPeer) {
				t.Errorf("%q, %v", got, err)
			}
			if _, err := c.Write([]byte("x")); !errors.Is(err, stream.ErrPeer) {
				t.Errorf("write: %v", err)
			}
			if n := h.Snapshot().Refused; n != 1 {
				t.Errorf("%d refused", n)
			}
		})
	}
}

// TestForgedGreeting: a peer with an invalid greeting gets no stream, and gets the reason.
func TestForgedGreeting(t *testing.T) {
	h := open(t, stream.Config{})
	l := listen(t, h, "")
	changes := []func(hello []byte){
		func(b []byte) { b[0]++ },
		func(b []byte) { b[5]++ },
		func(b []byte) { b[7]++ },
		func(b []byte) { clear(b[8:12]) },
		func(b []byte) { b[8] = 0xff },
		func(b []byte) { copy(b[16:], "\xff\xff\xff\xff\xff\xff\xff\xff") },
	}
	for i, change := range changes {
		if _, err := newStranger(t, l, change); !errors.Is(err, vipl.ErrReject) {
			t.Errorf("greeting %d: %v", i, err)
		}
	}
	if s := h.Snapshot(); s.Refused != uint64(len(changes)) || s.Failed != s.Refused || s.Open != 0 {
		t.Errorf("%+v", s)
	}
	a, b, err := connect(within(t), open(t, stream.Config{}), l) // others are served
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	b.Close()
}

// TestOutsideTheRing: the NIC rejects a peer's write outside of the ring.
func TestOutsideTheRing(t *testing.T) {
	l := listen(t, open(t, stream.Config{}), "")
	s, err := newStranger(t, l, func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	s.write(t, uint64(s.peer.Size)-1, 2, flow.DataWord(2))
	if n, err := c.Read(make([]byte, 9)); n != 0 || !errors.Is(err, vipl.ErrRDMA) {
		t.Errorf("%d, %v", n, err)
	}
}

// TestFlood: requests beyond the backlog use no memory. A peer that repeats its request when there
// is room is served.
func TestFlood(t *testing.T) {
	h := open(t, stream.Config{})
	l, err := (&stream.ListenConfig{Host: h, Backlog: 3}).Listen(background, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from := open(t, stream.Config{})
	const askers = 12
	made := make(chan error, askers)
	for range askers {
		go func() {
			c, err := (&stream.Dialer{Host: from}).Dial(within(t), l.Addr().String())
			if err == nil {
				err = c.Close()
			}
			made <- err
		}()
	}
	for range 3 {
		if err := <-made; err != nil {
			t.Error(err)
		}
	}
	if n := h.Snapshot().Open; n > 3 {
		t.Errorf("%d streams with a backlog of 3", n)
	}
	for range askers {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for range askers - 3 {
		if err := <-made; err != nil {
			t.Error(err)
		}
	}
}

// TestChurn: ten thousand connections (a hundred in the short form) are opened, used and closed,
// and leave nothing behind.
func TestChurn(t *testing.T) {
	to, from := open(t, stream.Config{ReadBuffer: 8192, WriteBuffer: 8192}), open(t, stream.Config{ReadBuffer: 8192, WriteBuffer: 8192})
	l := listen(t, to, "")
	served := make(chan error, 1)
	go func() {
		for {
			c, err := l.AcceptStream()
			if err != nil {
				served <- err
				return
			}
			go echo(c)
		}
	}()
	each := 1
	if need.Full() {
		each = 10
	}
	leaktest.Run(t, 2, func(i int) error {
		for range each {
			c, err := (&stream.Dialer{Host: from}).Dial(within(t), l.Addr().String())
			if err != nil {
				return err
			}
			c.SetDeadline(time.Now().Add(patience))
			if i%3 > 0 { // otherwise it closes immediately
				if _, err := c.Write([]byte("hello")); err != nil {
					return err
				}
			}
			if i%3 > 1 {
				if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
					return err
				}
			}
			if err := c.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	l.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for _, h := range []*stream.Host{from, to} {
		h.Close()
		if s, n := h.Snapshot(), h.NIC().Snapshot(); s.Open != 0 || n.Regions != 0 || len(n.VIs) != 0 || s.Refused != 0 {
			t.Errorf("left behind: %+v, %d regions, %d VIs", s, n.Regions, len(n.VIs))
		}
	}
}
