package stream_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/transport/seal"
)

// TestPushBack: if the reader stops, the writer blocks when both buffers are full. When the reader
// continues, all data arrive in order.
func TestPushBack(t *testing.T) {
	cfg := stream.Config{ReadBuffer: 50_000, WriteBuffer: 20_000}
	a, b := pair(t, cfg)
	data := story(1, 500_000)
	a.SetWriteDeadline(time.Now().Add(time.Second / 5))
	n, err := a.Write(data)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > cfg.ReadBuffer+cfg.WriteBuffer {
		t.Fatalf("%d bytes went, with buffers of %d and %d: %v", n, cfg.ReadBuffer, cfg.WriteBuffer, err)
	}
	a.SetWriteDeadline(time.Now().Add(patience))
	sent := make(chan error, 1)
	go func() {
		_, err := a.Write(data[n:])
		sent <- errors.Join(err, a.Close())
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestLeftBehind: data that Write has held back for coalescing are sent without another call of the
// writer.
func TestLeftBehind(t *testing.T) {
	a, b := pair(t, stream.Config{})
	for range 20 {
		const burst = 300
		for range burst {
			if _, err := a.Write([]byte("0123456789")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.CopyN(io.Discard, b, 10*burst); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadFrom: io.Copy to a stream carries more data than the stream's buffers hold.
func TestReadFrom(t *testing.T) {
	a, b := pair(t, stream.Config{})
	data := story(2, 3_000_000)
	sent := make(chan error, 1)
	go func() {
		n, err := io.Copy(a, io.MultiReader(bytes.NewReader(data[:10]), struct{ io.Reader }{bytes.NewReader(data[10:])}))
		if n != int64(len(data)) && err == nil {
			err = errors.New("too short")
		}
		sent <- errors.Join(err, a.Close())
	}()
	got, err := io.ReadAll(b)
	if err = errors.Join(err, <-sent); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
}

// TestReadFromFails: ReadFrom sends the data that the reader has returned, and then returns the
// reader's error unchanged.
func TestReadFromFails(t *testing.T) {
	a, b := pair(t, stream.Config{})
	bad := errors.New("the disk is gone")
	if n, err := a.ReadFrom(io.MultiReader(strings.NewReader("abc"), failing{bad})); n != 3 || err != bad {
		t.Errorf("%d, %v", n, err)
	}
	a.Close()
	if got, err := io.ReadAll(b); string(got) != "abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// atRead is a reader that calls a function before it gives its data.
type atRead struct {
	call func()
	data string
}

func (r *atRead) Read(p []byte) (int, error) {
	r.call()
	return copy(p, r.data), nil
}

// TestReadFromEnded: ReadFrom discards data that it reads after CloseWrite. The other end sees a
// correct end of the stream.
func TestReadFromEnded(t *testing.T) {
	a, b := pair(t, stream.Config{})
	end := &atRead{data: "behind", call: func() { a.CloseWrite() }}
	if n, err := a.ReadFrom(end); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if got, err := io.ReadAll(b); len(got) != 0 || err != nil {
		t.Errorf("%q came: %v", got, err)
	}
	if _, err := b.Write([]byte("back")); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 4)
	if _, err := io.ReadFull(a, back); err != nil || string(back) != "back" {
		t.Errorf("%q came back: %v", back, err)
	}
	if s := a.Stats(); s.BytesWritten != 0 {
		t.Errorf("%d bytes were written behind the end", s.BytesWritten)
	}
}

// TestReadFromClosed: a stream that is closed while ReadFrom reads keeps its memory until ReadFrom
// returns, and sends nothing after its end.
func TestReadFromClosed(t *testing.T) {
	a, b := pair(t, stream.Config{})
	end := &atRead{data: "behind", call: func() { a.Close() }}
	if n, err := a.ReadFrom(end); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if got, err := io.ReadAll(b); len(got) != 0 || err != nil {
		t.Errorf("%q came: %v", got, err)
	}
	if s := a.Stats(); s.BytesWritten != 0 {
		t.Errorf("%d bytes were written behind the end", s.BytesWritten)
	}
}

// TestLongestMessage: on a link with the longest frames, the longest message is one frame, sealed
// or not. The longest packet of an IP interface is one message.
func TestLongestMessage(t *testing.T) {
	const recordHead, vnetHead = 4, 10 // before a packet; see package tun
	if tun.MaxMTU+recordHead+vnetHead > stream.MaxMessage {
		t.Errorf("a packet of %d bytes is longer than a message, %d", tun.MaxMTU, stream.MaxMessage)
	}
	for name, key := range map[string]seal.Source{"plain": nil, "sealed": aKey} {
		t.Run(name, func(t *testing.T) {
			const room = 4 * stream.MaxMessage // a multiple of the message length, so that no message wraps around the buffer's end
			from, to := vethHosts(t, stream.Config{ReadBuffer: room, WriteBuffer: room}, key)
			a, b, err := connect(within(t), from, listen(t, to, "bobnet://longest"))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			defer b.Close()
			a.SetDeadline(time.Now().Add(patience))
			b.SetDeadline(time.Now().Add(patience))
			buf := make([]byte, stream.MaxMessage)
			pass := func() {
				t.Helper()
				if _, err := a.Write(buf); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(b, buf); err != nil {
					t.Fatal(err)
				}
			}
			for pass(); !carriesLong(from); { // traffic proves that the path carries long frames
				pass()
			}
			const count = 10
			messages, frames := a.Stats().MessagesSent, framesSent(from)
			for range count {
				pass()
			}
			messages, frames = a.Stats().MessagesSent-messages, framesSent(from)-frames
			if messages != count || frames != count {
				t.Errorf("%d writes of %d bytes were %d messages in %d frames", count, len(buf), messages, frames)
			}
		})
	}
}

// carriesLong reports whether a connection of the host sends frames longer than its interface's
// MTU.
func carriesLong(h *stream.Host) bool {
	s := h.NIC().Snapshot()
	for i := range s.VIs {
		if s.VIs[i].FrameData > s.Attributes.NativeMTU {
			return true
		}
	}
	return false
}

// framesSent returns how many frames connections of the host have sent, each counted once.
func framesSent(h *stream.Host) (n uint64) {
	for _, v := range h.NIC().Snapshot().VIs {
		n += v.Sender.Sent
	}
	return n
}

// TestNoAllocations: steady reading and writing allocates nothing, both for short data and for data
// that are sent without a copy.
func TestNoAllocations(t *testing.T) {
	for _, size := range []int{64, 8192, stream.DefaultWriteBuffer + 100_000} {
		a, b := pair(t, stream.Config{})
		ended := make(chan error, 1)
		go func() {
			buf := make([]byte, size)
			for {
				if _, err := io.ReadFull(b, buf); err != nil {
					ended <- err
					return
				}
				if _, err := b.Write(buf); err != nil {
					ended <- err
					return
				}
			}
		}()
		buf := make([]byte, size)
		round := func() {
			if _, err := a.Write(buf); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(a, buf); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 { // queues grow to their size
			round()
		}
		if n := alloctest.PerRun(t, 300, round); n != 0 {
			t.Errorf("%d bytes: %v allocations in a round trip", size, n)
		}
		a.Close()
		if err := <-ended; err != io.EOF {
			t.Error(err)
		}
		b.Close()
	}
}

// echo returns all data on the stream until the stream ends, and then closes it.
func echo(c *stream.Conn) (err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	buf := make([]byte, 100_000)
	for {
		n, err := c.Read(buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return err
		}
	}
}

func TestEcho(t *testing.T) {
	a, b := pair(t, stream.Config{})
	ended := make(chan error, 1)
	go func() { ended <- echo(b) }()
	for _, size := range []int{1, 64, 4096, stream.DefaultWriteBuffer, stream.DefaultWriteBuffer + 1, 1 << 20, 5_000_000} {
		data := make([]byte, size)
		rand.Read(data)
		sent := make(chan error, 1)
		go func() {
			_, err := a.Write(data)
			sent <- err
		}()
		back := make([]byte, size)
		if _, err := io.ReadFull(a, back); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if err := <-sent; err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.Equal(back, data) {
			t.Fatalf("%d bytes: others came back", size)
		}
	}
	// A Write of more than 128 KiB sends its data without a copy, except for the end. The end fits
	// into the buffer, so Write does not wait for it.
	const long = 2*stream.DefaultWriteBuffer + 1 + 1<<20 + 5_000_000 - 4*stream.TailSize
	if s := a.Stats(); s.DirectBytes < long || s.DirectBytes > s.BytesWritten {
		t.Errorf("%d of %d bytes were sent without a copy, want at least %d of long writes", s.DirectBytes, s.BytesWritten, long)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if err := errors.Join(<-ended, a.Close()); err != nil {
		t.Error(err)
	}
}
