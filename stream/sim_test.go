package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var seeds = seedtest.Flags("stream", 5).Each

// world is a simulated segment, with the errors that have occurred on it.
type world struct {
	*sim.World
	errs []error
}

// host runs fn as a process with a Host of its own.
func (w *world) host(name string, cfg stream.Config, fn func(h *stream.Host) error) *sim.Station {
	station := w.Station(name)
	w.Go(name, func() {
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(len(name))})
		if err == nil {
			cfg.NIC = nic
			var h *stream.Host
			if h, err = stream.Open(context.Background(), &cfg); err == nil {
				err = fn(h)
				h.Close()
			}
			nic.Close()
		}
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s at %v: %w", name, time.Duration(w.Now()), err))
		}
	})
	return station
}

// talk runs both ends of a stream.
func (w *world) talk(cfg stream.Config, server, client func(c *stream.Conn) error) error {
	w.host("server", cfg, func(h *stream.Host) error {
		l, err := (&stream.ListenConfig{Host: h}).Listen(background, "bobnet://sim")
		if err != nil {
			return err
		}
		defer l.Close()
		c, err := l.AcceptStream()
		if err != nil {
			return err
		}
		return server(c)
	})
	w.host("the client", cfg, func(h *stream.Host) error {
		ctx, cancel := h.NIC().WithTimeout(background, time.Minute)
		defer cancel()
		c, err := (&stream.Dialer{Host: h}).Dial(ctx, "bobnet://sim")
		if err != nil {
			return err
		}
		return client(c)
	})
	return w.run()
}

// run runs all processes, and returns the errors.
func (w *world) run() error {
	err := w.Run()
	return errors.Join(append(w.errs, err)...)
}

// story returns the data that one end of a stream writes, in pieces of any size.
func story(seed uint64, size int) []byte {
	data := make([]byte, size)
	rng := rand.New(rand.NewPCG(seed, 7))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

func writePieces(c *stream.Conn, rng *rand.Rand, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), 1+rng.IntN(1<<rng.IntN(18)))
		if k, err := c.Write(data[:n]); k != n || err != nil {
			return fmt.Errorf("%d of %d bytes written: %w", k, n, err)
		}
		data = data[n:]
	}
	return nil
}

func readPieces(c *stream.Conn, rng *rand.Rand, want []byte) error {
	buf := make([]byte, 1<<18)
	for got := 0; ; {
		n, err := c.Read(buf[:1+rng.IntN(1<<rng.IntN(18))])
		if n > len(want)-got || !bytes.Equal(buf[:n], want[got:got+n]) {
			return fmt.Errorf("%d bytes behind %d are others than were written", n, got)
		}
		got += n
		if err == io.EOF && got == len(want) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", got, len(want), err)
		}
	}
}

// TestLossyPipe: on a segment that loses, duplicates and reorders frames, a stream delivers the
// bytes of both directions up to their end, with buffers of any size.
func TestLossyPipe(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := &world{World: sim.New(sim.Options{Seed: seed, Loss: 0.03, Dup: 0.02, Reorder: 0.05, MTU: 1500 + 7500*int(seed%2)})}
		cfg := stream.Config{ReadBuffer: stream.MinBuffer + rng.IntN(100_000), WriteBuffer: stream.MinBuffer + rng.IntN(50_000)}
		there, back := story(seed, rng.IntN(400_000)), story(seed+1000, rng.IntN(400_000))
		return w.talk(cfg, func(c *stream.Conn) error {
			if err := readPieces(c, rng, there); err != nil {
				return err
			}
			if err := writePieces(c, rng, back); err != nil { // the other direction is closed
				return err
			}
			return c.Close()
		}, func(c *stream.Conn) error {
			if err := writePieces(c, rng, there); err != nil {
				return err
			}
			if err := c.CloseWrite(); err != nil {
				return err
			}
			if _, err := c.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
				return fmt.Errorf("write behind the end: %v", err)
			}
			if err := readPieces(c, rng, back); err != nil {
				return err
			}
			return c.Close()
		})
	})
}

// TestRandomCuts: one end closes, or its station dies, at a random time. The other end reads all
// data that were written before, or a beginning of them, and nothing else. Within a time limit, it
// gets io.EOF or an error that names the peer.
func TestRandomCuts(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 5))
		w := &world{World: sim.New(sim.Options{Seed: seed, Loss: 0.02})}
		cfg := stream.Config{ReadBuffer: 20_000, WriteBuffer: 10_000, PeerTimeout: 3 * time.Second}
		data := story(seed, 300_000)
		dies, after := seed%2 == 0, rng.IntN(len(data))
		w.host("server", cfg, func(h *stream.Host) error {
			l, err := (&stream.ListenConfig{Host: h}).Listen(background, "bobnet://sim")
			if err != nil {
				return err
			}
			c, err := l.AcceptStream()
			if err != nil {
				return err
			}
			return readCut(c, data, after, dies)
		})
		var station *sim.Station
		station = w.host("the client", cfg, func(h *stream.Host) error {
			ctx, cancel := h.NIC().WithTimeout(background, time.Minute)
			defer cancel()
			c, err := (&stream.Dialer{Host: h}).Dial(ctx, "bobnet://sim")
			if err != nil {
				return err
			}
			if err := writePieces(c, rng, data[:after]); err != nil {
				return err
			}
			if dies {
				w.Kill(station)
				c.Close()
				return nil
			}
			return c.Close()
		})
		return w.run()
	})
}

// readCut reads to the end of a stream that carries a part of data.
func readCut(c *stream.Conn, data []byte, after int, dies bool) error {
	got, err := io.ReadAll(c)
	if !bytes.HasPrefix(data[:after], got) {
		return fmt.Errorf("%d bytes that were not written", len(got))
	}
	switch {
	case dies && !errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the peer died, and the stream ended with %v", err)
	case !dies && (err != nil || len(got) != after):
		return fmt.Errorf("%d of %d bytes, %v", len(got), after, err)
	}
	if _, err := c.Write(make([]byte, 100_000)); err == nil {
		return errors.New("the peer is gone, and takes what is written")
	}
	return c.Close()
}

// TestVirtualDeadline: a deadline by the simulator's clock ends blocked reads and writes. The
// stream can be used afterwards.
func TestVirtualDeadline(t *testing.T) {
	w := &world{World: sim.New(sim.Options{Seed: 1})}
	cfg := stream.Config{ReadBuffer: 8192, WriteBuffer: 8192}
	err := w.talk(cfg, func(c *stream.Conn) error {
		w.Sleep(2 * time.Second)
		n, err := io.Copy(io.Discard, c)
		if n != 8192+1 || err != nil {
			return fmt.Errorf("%d bytes, %v", n, err)
		}
		return c.Close()
	}, func(c *stream.Conn) error {
		c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("read: %v", err)
		}
		c.SetDeadline(time.Now().Add(time.Second / 2))
		if n, err := c.Write(make([]byte, 100_000)); n != 8192 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("write: %d bytes, %v", n, err)
		}
		c.SetDeadline(time.Time{})
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestVirtualDialTimeout dials a name that no station has.
func TestVirtualDialTimeout(t *testing.T) {
	w := &world{World: sim.New(sim.Options{Seed: 1})}
	w.host("lonely", stream.Config{}, func(h *stream.Host) error {
		ctx, cancel := h.NIC().WithTimeout(background, time.Second)
		defer cancel()
		_, err := (&stream.Dialer{Host: h}).Dial(ctx, "bobnet://nobody")
		if !errors.Is(err, vipl.ErrNameService) {
			return fmt.Errorf("dial: %v", err)
		}
		ended, stop := context.WithCancel(background)
		stop()
		if _, err = (&stream.Dialer{Host: h}).Dial(ended, "bobnet://nobody"); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("dial with a context that has ended: %v", err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestCoalesced: successive small writes share messages. The last data are sent when the messages
// before are acknowledged. No virtual time passes between the writes.
func TestCoalesced(t *testing.T) {
	const count = 5000
	w := &world{World: sim.New(sim.Options{Seed: 1})}
	want := story(3, 5*count)
	err := w.talk(stream.Config{}, func(c *stream.Conn) error {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("others came than went, or %w", err)
		}
		return c.Close()
	}, func(c *stream.Conn) error {
		for i := range count {
			if _, err := c.Write(want[5*i : 5*i+5]); err != nil {
				return err
			}
		}
		if s := c.Stats(); s.Writes != count || s.MessagesSent > 100 {
			return fmt.Errorf("%d writes went in %d messages", s.Writes, s.MessagesSent)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			return fmt.Errorf("%d, %v", n, err)
		}
		return c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSmallWriteBuffer: small writes through a small write buffer use most of the bandwidth, because they are not held
// back until the buffer is full.
func TestSmallWriteBuffer(t *testing.T) {
	const size, piece, bandwidth = 3_000_000, 100, 10e9
	w := &world{World: sim.New(sim.Options{Seed: 1, MTU: 1500, Bandwidth: bandwidth, Delay: 5 * time.Microsecond})}
	var start, end int64
	err := w.talk(stream.Config{WriteBuffer: 32 << 10}, func(c *stream.Conn) error {
		_, err := io.CopyN(io.Discard, c, size)
		end = w.Now()
		return errors.Join(err, c.Close())
	}, func(c *stream.Conn) error {
		start = w.Now()
		for range size / piece {
			if _, err := c.Write(make([]byte, piece)); err != nil {
				return err
			}
		}
		return c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	if least := size * 8 / bandwidth * 1e9; float64(end-start) > 1.4*least {
		t.Errorf("%d bytes take %v, want at most 1.4 times %v", size, time.Duration(end-start), time.Duration(least))
	}
}

// TestYield: a Read that waits for the answer to the last Write does not yield, because no
// goroutine has work, and the yield would wake a thread in vain. A Read that waits for more data
// yields, because the program may have passed earlier data to other goroutines.
func TestYield(t *testing.T) {
	const rounds = 20
	w := &world{World: sim.New(sim.Options{Seed: 1})}
	err := w.talk(stream.Config{}, func(c *stream.Conn) error {
		buf := make([]byte, 64)
		for range rounds {
			if _, err := io.ReadFull(c, buf); err != nil {
				return err
			}
			if _, err := c.Write(buf); err != nil {
				return err
			}
		}
		c.SetReadDeadline(time.Now().Add(time.Second)) // the client waits meanwhile
		if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("read from who waits: %w", err)
		}
		_, err := c.Write(buf)
		return errors.Join(err, c.Close())
	}, func(c *stream.Conn) error {
		yields := 0
		c.Host().SetYield(func() { yields++ })
		buf := make([]byte, 64)
		for range rounds {
			if _, err := c.Write(buf); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				return err
			}
		}
		if yields > 0 {
			return fmt.Errorf("%d answers were waited for, and %d times it yielded", rounds, yields)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return err
		}
		if yields == 0 {
			return errors.New("it did not yield before it waited for more")
		}
		return c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOneMessage: the record of the longest packet of an IP interface (stream/tun) fits into one
// message, and so into one frame of a link with the longest frames.
func TestOneMessage(t *testing.T) {
	const size, count = 65_014, 5
	w := &world{World: sim.New(sim.Options{Seed: 1})}
	data := story(3, size)
	err := w.talk(stream.Config{ReadBuffer: 1 << 20, WriteBuffer: 512 << 10}, func(c *stream.Conn) error {
		_, err := io.CopyN(io.Discard, c, size*count)
		return errors.Join(err, c.Close())
	}, func(c *stream.Conn) error {
		for range count {
			if _, err := c.Write(data); err != nil {
				return err
			}
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			return fmt.Errorf("%d, %v", n, err)
		}
		if s := c.Stats(); s.MessagesSent != count {
			return fmt.Errorf("%d records went in %d messages", count, s.MessagesSent)
		}
		return c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}
