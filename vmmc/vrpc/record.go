package vrpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Record marking (RFC 5531 section 11): on a stream a message is one or more fragments, each
// behind a word with its length and, in the highest bit, whether it is the last.
const (
	lastFragment = 1 << 31
	maxFragment  = lastFragment - 1
)

const (
	// maxEmptyFragments is how many fragments of no bytes one record may have. The RFC
	// allows them; they are bounded because nothing else bounds them.
	maxEmptyFragments = 64
	// streamBuffer is how many bytes are read from a stream at a time.
	streamBuffer = 4096
	// keepBuffer is how large the memory of a record may be that is kept for the next one,
	// after one that needed less.
	keepBuffer = 64 << 10
)

var errNoMemory = errors.New("vrpc: the calls and replies of this peer, or of all, take too much memory (ServerConfig.MaxMemory)")

var errEmptyFragments = errors.New("vrpc: too many fragments of no octets in one record")

// recordReader takes records from a stream.
type recordReader struct {
	in   *bufio.Reader
	max  int // octets of a record
	mark [4]byte
	// room, if not nil, says whether the memory of a record may have so many bytes.
	room func(size int) bool
}

func newRecordReader(r io.Reader, max int) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(r, streamBuffer), max: max}
}

// buffered reports whether the next record has arrived as a whole, in one fragment.
func (r *recordReader) buffered() bool {
	n := r.in.Buffered()
	if n < 4 {
		return false
	}
	mark, _ := r.in.Peek(4) // they are there
	word := binary.BigEndian.Uint32(mark)
	return word&lastFragment != 0 && int(word&^lastFragment) <= n-4
}

// read reads a record into the memory of rec, or into more where that is too small: a length
// is believed only so far as the bytes have arrived. The result begins with headroom, which is
// free for use. It is an error if the record is too long (ErrTooLarge).
func (r *recordReader) read(rec []byte) ([]byte, error) {
	if cap(rec) > keepBuffer && len(rec) <= keepBuffer {
		rec = nil
	}
	rec = append(rec[:0], 0, 0, 0, 0)
	for empty := 0; ; {
		if _, err := io.ReadFull(r.in, r.mark[:]); err != nil {
			return rec, err
		}
		word := binary.BigEndian.Uint32(r.mark[:])
		n := int(word &^ lastFragment)
		if n > r.max-(len(rec)-headroom) {
			return rec, fmt.Errorf("%w: a record of %d octets and more, %d are allowed", ErrTooLarge, len(rec)-headroom+n, r.max)
		}
		var err error
		if rec, err = r.fragment(rec, n); err != nil {
			return rec, err
		}
		if word&lastFragment != 0 {
			return rec, nil
		}
		if n == 0 {
			if empty++; empty > maxEmptyFragments {
				return rec, errEmptyFragments
			}
		}
	}
}

// fragment appends n bytes of the stream to rec. The memory at most doubles before what
// is in it has arrived.
func (r *recordReader) fragment(rec []byte, n int) ([]byte, error) {
	for n > 0 {
		if len(rec) == cap(rec) {
			size := max(2*len(rec), len(rec)+min(n, streamBuffer))
			if r.room != nil && !r.room(size) {
				return rec, errNoMemory
			}
			grown := make([]byte, len(rec), size)
			copy(grown, rec)
			rec = grown
		}
		have := len(rec)
		rec = rec[:have+min(n, cap(rec)-have)]
		got, err := io.ReadFull(r.in, rec[have:])
		if err != nil {
			return rec[:have+got], err
		}
		n -= got
	}
	return rec, nil
}

// writeRecord writes buf, which begins with headroom, as one record in fragments of up to
// limit bytes, each by one Write. The message is as it was afterwards.
func writeRecord(w io.Writer, buf []byte, limit int) error {
	for {
		n := len(buf) - headroom
		var last uint32 = lastFragment
		if n > limit {
			n, last = limit, 0
		}
		before := [headroom]byte(buf)
		binary.BigEndian.PutUint32(buf, last|uint32(n))
		_, err := w.Write(buf[:headroom+n])
		copy(buf, before[:])
		if err != nil || last != 0 {
			return err
		}
		buf = buf[n:] // what has been written makes room for the next mark
	}
}

// fragmentLimit returns the longest fragment for an option that may be 0.
func fragmentLimit(option int) int {
	if option <= 0 || option > maxFragment {
		return maxFragment
	}
	return option
}
