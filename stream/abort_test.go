package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestAbort: Abort takes no time, though the other end acknowledges nothing of what is under way;
// the other end reads what came, and then that the stream was cut. Calls behind it fail.
func TestAbort(t *testing.T) {
	w := &world{World: sim.New(sim.Options{Seed: 1})}
	cfg := stream.Config{ReadBuffer: 8192, WriteBuffer: 8192}
	want := story(1, 4000)
	err := w.talk(cfg, func(c *stream.Conn) error {
		for range 4 { // so much that some of it waits for room
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

// TestAbortBlocked: Abort ends a Read and a long Write that block, and gives everything back.
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
