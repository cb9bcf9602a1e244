package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestAbort: Abort returns immediately, although the other end does not acknowledge the data in
// flight. The other end reads the data that have arrived, and then gets the error that the stream
// was cut. Calls after Abort fail.
func TestAbort(t *testing.T) {
	w := &world{World: sim.New(sim.Options{Seed: 1})}
	cfg := stream.Config{ReadBuffer: 8192, WriteBuffer: 8192}
	want := story(1, 4000)
	err := w.talk(cfg, func(c *stream.Conn) error {
		for range 4 { // more data than there is room for
			if _, err := c.Write(want); err != nil {
				return err
			}
		}
		began := w.Now()
		if err := c.Abort(); err != nil || w.Now() != began {
			return fmt.Errorf("abort: %w, after %v", err, time.Duration(w.Now()-began))
		}
		_, readErr := c.Read(make([]byte, 1))
		_, writeErr := c.Write(want)
		for _, err := range []error{readErr, writeErr, c.CloseWrite(), c.Abort(), c.Close()} {
			if !errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("behind Abort: %w", err)
			}
		}
		return w.Sleep(time.Second)
	}, func(c *stream.Conn) error {
		if err := w.Sleep(time.Second / 2); err != nil {
			return err
		}
		got, err := io.ReadAll(c)
		if !errors.Is(err, syscall.ECONNRESET) || len(got) > 8192 || !bytes.HasPrefix(bytes.Repeat(want, 4), got) {
			return fmt.Errorf("%d bytes, and then %w", len(got), err)
		}
		if err := c.Close(); err != nil {
			return err
		}
		if err := c.Abort(); !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("abort behind close: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAbortBlocked: Abort ends a blocked Read and a blocked long Write, and frees all resources.
func TestAbortBlocked(t *testing.T) {
	a, b := pair(t, stream.Config{ReadBuffer: 8192, WriteBuffer: 8192})
	ended := make(chan error, 2)
	go func() {
		_, err := a.Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		_, err := a.Write(make([]byte, 1<<20))
		ended <- err
	}()
	if _, err := io.ReadFull(b, make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}
	if err := a.Abort(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	if _, err := io.Copy(io.Discard, b); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other end: %v", err)
	}
	if n := a.Host().NIC().Snapshot(); n.Regions > 0 || len(n.VIs) > 0 {
		t.Errorf("%d regions and %d VIs are left", n.Regions, len(n.VIs))
	}
}

// talker is one end of a stream on which both ends write and read all the time.
type talker struct {
	*world
	name         string
	rng          *rand.Rand
	mine, theirs []byte // the texts that the two ends write repeatedly
	c            *stream.Conn
	wrote, got   int
	cutAt        int // number of bytes that a failed Write has taken
	of           int // length of this Write
	writeErr     error
	readErr      error
	ended        [2]int64 // writing and reading
	closing      bool     // its Close has not returned
}

// run writes and reads until both fail.
func (f *talker) run() error {
	var wrong error
	f.Go(f.name+" reads", func() {
		wrong = f.read()
		f.ended[1] = f.Now()
	})
	f.write()
	f.ended[0] = f.Now()
	for f.ended[1] == 0 || f.closing { // in virtual time, the Host does not wait for a running Close
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	f.c.Close()
	return wrong
}

// write writes, pieces of any length or all at once.
func (f *talker) write() {
	long := f.rng.IntN(2) == 0
	for f.writeErr == nil {
		p := f.mine[f.wrote%len(f.mine):]
		if !long || f.rng.IntN(4) == 0 {
			p = p[:min(len(p), 1+f.rng.IntN(1<<f.rng.IntN(16)))]
		}
		f.of = len(p)
		f.cutAt, f.writeErr = f.c.Write(p)
		f.wrote += f.cutAt
	}
}

// read reads, and returns an error if the data differ from the other end's text.
func (f *talker) read() error {
	buf := make([]byte, 1<<16)
	for f.readErr == nil {
		var n int
		n, f.readErr = f.c.Read(buf[:1+f.rng.IntN(1<<f.rng.IntN(17))])
		for i, b := range buf[:n] {
			if b != f.theirs[(f.got+i)%len(f.theirs)] {
				return fmt.Errorf("byte %d is another one than was written", f.got+i)
			}
		}
		f.got += n
	}
	return nil
}

// how is the way in which a stream is cut.
type how int

const (
	closes how = iota // one end closes the stream while it reads and writes
	aborts            // one end aborts the stream
	dies              // its station vanishes
)

// TestCutsBothWays: while data flow in both directions, either end closes or aborts the stream, or
// its station dies, during Writes and Reads. All calls end within a time limit and with the
// expected error. An end that closes has all its data delivered. Otherwise the other end reads a
// beginning of the data.
func TestCutsBothWays(t *testing.T) {
	within := 0
	seeds(t, 60, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 11))
		w := &world{World: sim.New(sim.Options{Seed: seed, Loss: 0.02 * float64(seed%2), Bandwidth: 1e9})}
		cfg := stream.Config{ReadBuffer: 20_000, WriteBuffer: 10_000 + rng.IntN(100_000), PeerTimeout: 3 * time.Second}
		there, back := story(seed, 200_000), story(seed+1000, 200_000)
		client := &talker{world: w, name: "the client", rng: rng, mine: there, theirs: back}
		server := &talker{world: w, name: "server", rng: rng, mine: back, theirs: there}
		stations := map[*talker]*sim.Station{}
		stations[server] = w.host("server", cfg, func(h *stream.Host) error {
			l, err := (&stream.ListenConfig{Host: h}).Listen(background, "bobnet://sim")
			if err != nil {
				return err
			}
			if server.c, err = l.AcceptStream(); err != nil {
				return err
			}
			return server.run()
		})
		stations[client] = w.host("the client", cfg, func(h *stream.Host) (err error) {
			ctx, cancel := h.NIC().WithTimeout(background, time.Minute)
			defer cancel()
			if client.c, err = (&stream.Dialer{Host: h}).Dial(ctx, "bobnet://sim"); err != nil {
				return err
			}
			return client.run()
		})
		cuts, other := client, server
		if rng.IntN(2) == 0 {
			cuts, other = other, cuts
		}
		way, at := how(rng.IntN(3)), int64(0)
		w.Go("cut", func() {
			for client.c == nil || server.c == nil {
				w.Sleep(10 * time.Microsecond)
			}
			w.Sleep(time.Duration(1+rng.IntN(1000)) << rng.IntN(16)) // at most 33 ms
			switch at = w.Now(); way {
			case closes:
				cuts.closing = true
				cuts.c.Close()
				cuts.closing = false
			case aborts:
				cuts.c.Abort()
			case dies:
				w.Kill(stations[cuts])
			}
		})
		if err := w.run(); err != nil {
			return fmt.Errorf("way %d: %w", way, err)
		}
		if cuts.cutAt > 0 && cuts.cutAt < cuts.of {
			within++
		}
		return errors.Join(cuts.wantCut(way, at), other.wantEnd(way, at, cuts))
	})
	if within == 0 {
		t.Error("no Write was cut when some of it was taken")
	}
}

// wantCut checks the errors and times of the end that has cut the stream.
func (f *talker) wantCut(way how, at int64) error {
	if way != dies && (!errors.Is(f.writeErr, net.ErrClosed) || !errors.Is(f.readErr, net.ErrClosed)) {
		return fmt.Errorf("%s closed the stream, and its calls end with %w and %w", f.name, f.writeErr, f.readErr)
	}
	return f.wantSoon(at)
}

// wantEnd checks the errors and times of the other end.
func (f *talker) wantEnd(way how, at int64, cuts *talker) error {
	if gone := errors.Is(f.writeErr, syscall.ECONNRESET) || way == closes && errors.Is(f.writeErr, syscall.EPIPE); !gone {
		return fmt.Errorf("%s writes to who is gone: %w", f.name, f.writeErr)
	}
	switch {
	case way == closes && (f.readErr != io.EOF || f.got != cuts.wrote):
		return fmt.Errorf("%s has read %d of %d bytes, and then %w", f.name, f.got, cuts.wrote, f.readErr)
	case way != closes && (!errors.Is(f.readErr, syscall.ECONNRESET) || f.got > cuts.wrote+200_000):
		return fmt.Errorf("%s has read %d bytes, of which %d were written, and then %w", f.name, f.got, cuts.wrote, f.readErr)
	}
	return f.wantSoon(at)
}

// wantSoon checks that both calls have ended soon after the time at.
func (f *talker) wantSoon(at int64) error {
	for _, end := range f.ended {
		if took := time.Duration(end - at); took > 8*time.Second {
			return fmt.Errorf("%s ended %v after the cut", f.name, took)
		}
	}
	return nil
}

// TestInterfaceGone: after the deletion of an interface, Accept and Read of its streams return an
// error that says so. The next Dial opens the process's shared host again.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	serve := func() (l *stream.Listener) {
		err := p.In(1, func() error {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			if err == nil {
				t.Cleanup(func() { nic.Close() })
				l = listen(t, open(t, stream.Config{NIC: nic}), "bobnet://server")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	gone := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, transport.ErrGone) || !errors.Is(err, vipl.ErrLink) {
			t.Errorf("%s: %v, want ErrLink and ErrGone", what, err)
		}
	}
	for round := range 2 {
		l := serve()
		var c *stream.Conn
		var own *stream.Listener
		err := p.In(0, func() (err error) {
			if c, err = stream.Dial(within(t), "bobnet://server"); err == nil {
				own, err = stream.Listen(t.Context(), "")
			}
			return err
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := p.Delete(); err != nil {
			t.Fatal(err)
		}
		_, err = l.Accept()
		gone("Accept", err)
		_, err = c.Read(make([]byte, 1))
		gone("Read", err)
		_, err = own.Accept()
		gone("Accept of the shared host", err)
		c.Close()
		own.Close()
		if round == 0 {
			if err := p.Join(1500); err != nil {
				t.Fatal(err)
			}
		}
	}
}
