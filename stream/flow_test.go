package stream_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/stream"
)

// TestPushBack: a reader that stops holds its writer, who has no more under way than both
// buffers hold; when it reads again all arrives, in order.
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

// TestLeftBehind: what Write has coalesced goes without a further call of the writer's.
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

// TestReadFrom: io.Copy to a stream, of more than its buffers hold.
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

// TestReadFromFails: the error of the reader is returned as it is, after what it has read.
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
