package shm_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// frame returns a frame of n bytes from a to the stranger.
func (s *stranger) frame(a *shm.Link, n int) transport.Frame {
	to := a.Info()
	to.Ports = s.ports
	return transport.Frame{Head: linktest.NewFrame(a.Info(), to, to.Ports.Lo, make([]byte, n-ethertype.HeaderSize))}
}

// own returns a frame from the stranger to a.
func (s *stranger) own(a *shm.Link) []byte {
	from := a.Info()
	from.Ports = s.ports
	return linktest.NewFrame(from, a.Info(), a.Info().Ports.Lo, make([]byte, 100))
}

// TestKept: of the frames to a station that does not answer, so many wait, and
// so many bytes of them.
func TestKept(t *testing.T) {
	const long = 60_000
	a := open(t, shm.Config{})
	for i, c := range []struct{ length, fit int }{
		{ethertype.HeaderSize, shm.KeptFrames},
		{long, shm.KeptBytes / long},
	} {
		f := newStranger(t, a, 58+i).frame(a, c.length)
		before := a.Stats().TxDrops
		for range c.fit {
			a.Send([]transport.Frame{f})
		}
		if n := a.Stats().TxDrops - before; n != 0 {
			t.Errorf("%d of %d frames of %d bytes were dropped, want none", n, c.fit, c.length)
		}
		if a.Send([]transport.Frame{f, f}); a.Stats().TxDrops != before+2 {
			t.Errorf("%d of 2 frames more of %d bytes were dropped", a.Stats().TxDrops-before, c.length)
		}
	}
}

// answerCall takes the call that came to the stranger and answers it over its
// stream, with a file if it is to.
func (s *stranger) answerCall(hello []byte, file int) {
	s.Helper()
	s.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	text, rights := make([]byte, 64), make([]byte, 64)
	_, k, _, _, err := s.conn.ReadMsgUnix(text, rights)
	if err != nil {
		s.Fatal(err)
	}
	msgs, err := unix.ParseSocketControlMessage(rights[:k])
	if err != nil || len(msgs) != 1 {
		s.Fatal("the call comes without descriptors", err)
	}
	fds, _ := unix.ParseUnixRights(&msgs[0])
	s.Cleanup(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	var with []byte
	if file >= 0 {
		with = unix.UnixRights(file)
	}
	if err := unix.Sendmsg(fds[0], hello, with, nil, 0); err != nil {
		s.Fatal(err)
	}
}

// TestAnswers: an answer from a station that does not say that it has the port
// which was called, or that comes with what nobody has asked for, is none.
func TestAnswers(t *testing.T) {
	const block = uint32(60)
	own := block<<10<<16 | block<<10 + 1023
	for what, c := range map[string]struct {
		ports    uint32
		file     bool
		believed int
	}{
		"good":        {own, false, 1},
		"other ports": {own - 1024<<16 - 1024, false, 0},
		"with a file": {own, true, 0},
	} {
		a := open(t, shm.Config{})
		s := newStranger(t, a, int(block))
		a.Send([]transport.Frame{s.frame(a, 100)})
		file := -1
		if c.file {
			file = s.file()
		}
		s.answerCall(helloOf(c.ports, strangerRing), file)
		unix.Close(file)
		until(t, what, func() bool { st := a.Stats(); return st.TxFrames+st.TxDrops > 0 })
		if n := a.Peers(); n != c.believed || int(a.Stats().TxFrames) != n {
			t.Errorf("%s: %d peers, want %d; counted %+v", what, n, c.believed, a.Stats())
		}
		a.Close()
		s.conn.Close()
	}
}
