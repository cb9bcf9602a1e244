package vrpc

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
)

// stream returns fragments: of each a word and the bytes behind it.
func stream(parts ...any) (p []byte) {
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			p = append(p, byte(part>>24), byte(part>>16), byte(part>>8), byte(part))
		case string:
			p = append(p, part...)
		}
	}
	return p
}

func TestRecords(t *testing.T) {
	const last = lastFragment
	for _, c := range []struct {
		name string
		in   []byte
		want []string
		err  error
	}{
		{"one fragment", stream(last|4, "abcd"), []string{"abcd"}, io.EOF},
		{"fragments", stream(2, "ab", 1, "c", last|1, "d", last|1, "e"), []string{"abcd", "e"}, io.EOF},
		{"empty fragments", stream(0, 0, 2, "ab", 0, last, last|1, "e"), []string{"ab", "e"}, io.EOF},
		{"empty record", stream(last), []string{""}, io.EOF},
		{"as long as allowed", stream(last|8, "abcdefgh"), []string{"abcdefgh"}, io.EOF},
		{"too long", stream(last|9, "abcdefghi"), nil, errTooLarge},
		{"too long in parts", stream(8, "abcdefgh", 1, "i"), nil, errTooLarge},
		{"2^31-1 bytes", stream(maxFragment, "abc"), nil, errTooLarge},
		{"half a mark", stream(last|4, "abcd", "xx"), []string{"abcd"}, io.ErrUnexpectedEOF},
		{"half a fragment", stream(last|4, "ab"), nil, io.ErrUnexpectedEOF},
		{"endless empty fragments", make([]byte, 4*(maxEmptyFragments+1)), nil, errEmptyFragments},
	} {
		r := newRecordReader(bytes.NewReader(c.in), 8)
		var got []string
		rec, err := r.read(nil)
		for ; err == nil; rec, err = r.read(rec) {
			got = append(got, string(rec[headroom:]))
		}
		if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// A length is believed only so far as its bytes have arrived.
func TestRecordMemory(t *testing.T) {
	var before, after runtime.MemStats
	in := append(stream(maxFragment), make([]byte, 1000)...)
	r := newRecordReader(bytes.NewReader(in), maxFragment)
	runtime.ReadMemStats(&before)
	_, err := r.read(nil)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 1<<20 {
		t.Errorf("a length of 2^31-1 with 1000 bytes behind it took %d bytes of memory, %v", n, err)
	}
}

// What is written in fragments is read as it was, and left as it was.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("abc"), uint16(1))
	f.Add([]byte{}, uint16(0))
	f.Add(make([]byte, 10000), uint16(4097))
	f.Fuzz(func(t *testing.T, msg []byte, limit uint16) {
		buf := append(make([]byte, headroom), msg...)
		var wire bytes.Buffer
		if err := writeRecord(&wire, buf, fragmentLimit(int(limit))); err != nil || !bytes.Equal(buf[headroom:], msg) {
			t.Fatalf("%v", err)
		}
		rec, err := newRecordReader(&wire, len(msg)).read(nil)
		if err != nil || !bytes.Equal(rec[headroom:], msg) || wire.Len() > 0 {
			t.Fatalf("%d bytes of %d, %v", len(rec)-headroom, len(msg), err)
		}
		// The message itself, taken for a stream: it ends, without more memory than it has.
		r := newRecordReader(bytes.NewReader(msg), len(msg))
		for rec, err := r.read(nil); err == nil; rec, err = r.read(rec) {
			if len(rec)-headroom > len(msg) {
				t.Fatalf("a record of %d bytes from %d", len(rec)-headroom, len(msg))
			}
		}
	})
}
