package stream_test

import (
	"io"
	"testing"

	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/stream"
)

// TestNoAllocations: steady reading and writing allocates nothing, of short data and of
// such as go from where they lie.
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
