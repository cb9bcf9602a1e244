package stream_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/stream"
)

// writeSomehow writes data with all write methods in random order.
func writeSomehow(c *stream.Conn, rng *rand.Rand, data []byte) error {
	for len(data) > 0 {
		p := data[:min(len(data), 1+rng.IntN(1<<rng.IntN(15)))]
		switch rng.IntN(3) {
		case 0:
			if _, err := c.Write(p); err != nil {
				return err
			}
		case 1:
			if !c.TryWrite(p) {
				continue
			}
		default:
			room := c.Reserve(len(p), 0)
			if room == nil {
				continue
			}
			if rng.IntN(4) == 0 {
				p = nil
			}
			if err := c.Commit(copy(room, p)); err != nil {
				return err
			}
		}
		data = data[len(p):]
	}
	return c.CloseWrite()
}

// readSomehow reads to the end with both read methods in random order.
func readSomehow(c *stream.Conn, rng *rand.Rand) (all []byte, err error) {
	for {
		if rng.IntN(2) == 0 {
			b := make([]byte, 1+rng.IntN(5000))
			n, err := c.Read(b)
			all = append(all, b[:n]...)
			if err != nil {
				return all, err
			}
			continue
		}
		want := rng.IntN(6000)
		first, rest, err := c.Peek(want)
		if err == io.ErrUnexpectedEOF {
			continue // less is left
		}
		if err != nil {
			return all, err
		}
		if len(first)+len(rest) < max(want, 1) || len(first) == 0 {
			return all, errors.New("Peek has returned less than was asked for")
		}
		n := rng.IntN(len(first) + len(rest) + 1)
		k := min(n, len(first))
		all = append(append(all, first[:k]...), rest[:n-k]...)
		c.Discard(n)
	}
}

// TestInPlace: data written and read in place mix with other data, and arrive in order. They cross
// the ends of the buffers.
func TestInPlace(t *testing.T) {
	for seed := range uint64(10) {
		a, b := pair(t, stream.Config{ReadBuffer: 9000, WriteBuffer: 20_000})
		data := story(seed, 400_000)
		sent := make(chan error, 1)
		go func() { sent <- writeSomehow(a, rand.New(rand.NewPCG(seed, 1)), data) }()
		got, err := readSomehow(b, rand.New(rand.NewPCG(seed, 2)))
		if err != io.EOF || !bytes.Equal(got, data) {
			t.Errorf("seed %d: %d of %d bytes, %v", seed, len(got), len(data), err)
		}
		if err := <-sent; err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if x, y := a.Stats().BytesWritten, b.Stats().BytesRead; x != uint64(len(data)) || y != x {
			t.Errorf("seed %d: %d bytes are counted as written, %d as read, of %d", seed, x, y, len(data))
		}
		a.Close()
		b.Close()
	}
}

// TestInPlaceEnds: Peek returns an error if fewer bytes will arrive. The memory that Peek and
// Reserve have returned stays valid when the stream is closed.
func TestInPlaceEnds(t *testing.T) {
	a, b := pair(t, stream.Config{ReadBuffer: 9000, WriteBuffer: 20_000})
	if _, _, err := b.Peek(9001); !errors.Is(err, io.ErrShortBuffer) {
		t.Errorf("more than the buffer holds: %v", err)
	}
	b.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, _, err := b.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nothing comes: %v", err)
	}
	b.SetReadDeadline(time.Now().Add(patience))
	if _, err := a.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	a.CloseWrite()
	if _, _, err := b.Peek(8); err != io.ErrUnexpectedEOF {
		t.Errorf("more than comes: %v", err)
	}
	first, _, err := b.Peek(7)
	if err != nil {
		t.Fatal(err)
	}
	room := b.Reserve(100, 0)
	if room == nil || b.Reserve(1, 0) != nil || b.TryWrite([]byte("x")) {
		t.Error("two write at a time, or none")
	}
	b.Close()
	if copy(room, first); string(first) != "the end" {
		t.Errorf("%q lies there", first)
	}
	if err := b.Commit(7); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Commit of a closed stream: %v", err)
	}
	b.Discard(7)
	if _, _, err := b.Peek(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Peek of a closed stream: %v", err)
	}
	if b.TryWrite([]byte("x")) || b.Reserve(1, 0) != nil {
		t.Error("a closed stream is written to")
	}
}

// TestTryWriteFull: if the other end does not read, TryWrite and Reserve take nothing and do not
// wait. They continue when it reads.
func TestTryWriteFull(t *testing.T) {
	a, b := pair(t, stream.Config{ReadBuffer: 9000, WriteBuffer: 20_000})
	sent := 0
	for p := make([]byte, 1000); a.TryWrite(p); sent += len(p) {
		if sent > 29_000 {
			t.Fatalf("%d bytes went, with buffers of 9000 and 20000", sent)
		}
	}
	if a.Reserve(1000, 0) != nil {
		t.Error("Reserve has room where TryWrite has none")
	}
	if n, err := io.CopyN(io.Discard, b, int64(sent)); err != nil {
		t.Fatalf("%d of %d bytes: %v", n, sent, err)
	}
	for end := time.Now().Add(patience); !a.TryWrite([]byte("more")); {
		if time.Now().After(end) {
			t.Fatal("nothing is written, though all has been read")
		}
	}
}

// TestReserveWaits: Reserve waits for room, at most until its time limit. It returns room if the
// other end reads meanwhile. It returns none if the other end does not read, and immediately none
// if the stream ends.
func TestReserveWaits(t *testing.T) {
	a, b := pair(t, stream.Config{ReadBuffer: 9000, WriteBuffer: 20_000})
	const most = 9000 + 20_000
	sent := 0
	fill := func(upTo int) {
		wait := patience
		for a.Reserve(1000, wait) != nil {
			if err := a.Commit(1000); err != nil {
				t.Fatal(err)
			}
			if sent += 1000; sent >= upTo-2000 {
				wait = 50 * time.Millisecond
			}
		}
		if sent < upTo-2000 || sent > upTo {
			t.Fatalf("%d bytes went, want %d at the most", sent, upTo)
		}
	}
	fill(most)
	read, all := make(chan error), sent
	go func() {
		_, err := io.CopyN(io.Discard, b, int64(all))
		read <- err
	}()
	room := a.Reserve(1000, patience)
	if room == nil {
		t.Fatal("there is no room, though all has been read")
	}
	if err := errors.Join(<-read, a.Commit(len(room))); err != nil {
		t.Fatal(err)
	}
	sent += len(room)
	fill(all + most)
	reserved := make(chan []byte)
	go func() { reserved <- a.Reserve(1000, 100*patience) }()
	a.Close()
	select {
	case room := <-reserved:
		if room != nil {
			t.Error("a closed stream has room")
		}
	case <-time.After(patience):
		t.Error("Reserve waits for a closed stream")
	}
}

// TestInPlaceAllocations: writing and reading in place allocates nothing.
func TestInPlaceAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: CI counts without the race detector, too")
	}
	a, b := pair(t, stream.Config{})
	data := make([]byte, 1000)
	round := func() {
		if room := a.Reserve(len(data), 0); room != nil {
			if err := a.Commit(len(data)); err != nil {
				t.Fatal(err)
			}
		} else if !a.TryWrite(data) { // the buffer ends before
			t.Fatal("there is no room")
		}
		if _, _, err := b.Peek(len(data)); err != nil {
			t.Fatal(err)
		}
		b.Discard(len(data))
	}
	for range 1000 { // queues grow to their size
		round()
	}
	if n := alloctest.PerRun(t, 100, round); n != 0 {
		t.Errorf("%v allocations in a round", n)
	}
}
