package stream_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"testing"

	"github.com/bobnet-go/bobnet/stream"
)

// echo returns on the stream what comes, until it ends, and then closes it.
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
	// What is too long for the buffer of writes is sent from where it lies, up to its end, which the
	// buffer has room for: Write does not wait for it.
	const long = 1 + 1<<20 + 5_000_000 - 2*stream.DefaultWriteBuffer
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
