package stream_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/stream"
)

// atRead is a reader that calls a function before it gives its data.
type atRead struct {
	call func()
	data string
}

func (r *atRead) Read(p []byte) (int, error) {
	r.call()
	return copy(p, r.data), nil
}

// TestReadFromEnded: what ReadFrom reads after the end has been sent goes nowhere: the other end
// finds nothing wrong with the stream.
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

// TestReadFromClosed: a stream that is closed while ReadFrom reads keeps its memory until then,
// and sends nothing behind its end.
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
