package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// records takes a stream of records apart. What comes is copied once, to where the packets are
// handed on from.
type records struct {
	from     io.Reader
	mem      []byte
	at, have int // what lies in mem and has not been handed out
}

// recordsMem is how much is read at once at the most. Of what has been read, no more than the
// beginning of a record is moved, when there is no room for the rest behind it.
const recordsMem = 4 * (recordHead + maxRecord)

// errRecord is wrapped by the error for a length that no record has.
var errRecord = errors.New("a record has a length that none can have")

func newRecords(from io.Reader) *records { return &records{from: from, mem: make([]byte, recordsMem)} }

// next returns the next record, which is valid until the next call. It returns io.EOF if the
// stream ends between records, and io.ErrUnexpectedEOF if it ends within one.
func (r *records) next() (content, error) {
	if err := r.fill(recordHead); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(r.mem[r.at:]))
	if n <= vnetSize || n > maxRecord {
		return nil, fmt.Errorf("%w: %d octets, want %d to %d", errRecord, n, vnetSize+1, maxRecord)
	}
	if err := r.fill(recordHead + n); err != nil {
		return nil, err
	}
	c := content(r.mem[r.at+recordHead:][:n:n])
	r.at += recordHead + n
	return c, nil
}

// fill reads until n octets lie in mem that have not been handed out.
func (r *records) fill(n int) error {
	if r.at == r.have {
		r.at, r.have = 0, 0
	} else if r.at+n > len(r.mem) {
		r.have = copy(r.mem, r.mem[r.at:r.have])
		r.at = 0
	}
	for r.have-r.at < n {
		k, err := r.from.Read(r.mem[r.have:])
		if r.have += k; err != nil && r.have-r.at < n {
			if err == io.EOF && r.have > r.at {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
