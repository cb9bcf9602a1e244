package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// source is the stream that records are read from: a stream.Conn.
type source interface {
	Peek(n int) (first, rest []byte, err error)
	Discard(n int)
}

// records splits a stream into records.
type records struct {
	from  source
	begin [beginSize]byte
	taken int // bytes of the record that next has returned
	arrival
}

// arrival is a record without its length. The beginning, with all headers that are checked, is a
// copy, because the neighbour could change the original after the check. The rest is in the
// stream's memory.
type arrival struct {
	parts [3][]byte
	n     int // total bytes
}

// beginSize is the length of the copied beginning: the kernel's header, and at least the longest IP
// header.
const beginSize = 128

// offload returns the kernel's header.
func (r *arrival) offload() []byte { return r.parts[0][:vnetSize] }

// packet returns the beginning of the packet and its total length.
func (r *arrival) packet() (begin []byte, n int) { return r.parts[0][vnetSize:], r.n - vnetSize }

// errRecord is wrapped by the error for an invalid length of a record.
var errRecord = errors.New("invalid record length")

func newRecords(from source) *records { return &records{from: from} }

// next returns the next record, which is valid until the following call of next or end. It returns
// io.EOF if the stream ends between records, and io.ErrUnexpectedEOF if it ends within one.
func (r *records) next() (*arrival, error) {
	r.end()
	first, rest, err := r.from.Peek(recordHead)
	if err != nil {
		return nil, err
	}
	var head [recordHead]byte
	copy(head[copy(head[:], first):], rest)
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n <= vnetSize || n > maxRecord {
		r.from.Discard(0)
		return nil, fmt.Errorf("%w: %d bytes, want %d to %d", errRecord, n, vnetSize+1, maxRecord)
	}
	if len(first)+len(rest) < recordHead+n {
		r.from.Discard(0)
		if first, rest, err = r.from.Peek(recordHead + n); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	r.taken, r.n = recordHead+n, n
	first, rest = cut(first, rest, recordHead, n)
	k := copy(r.begin[:], first)
	k += copy(r.begin[k:], rest)
	r.parts[0] = r.begin[:k]
	r.parts[1], r.parts[2] = cut(first, rest, k, n-k)
	return &r.arrival, nil
}

// end releases the record that next has returned.
func (r *records) end() {
	if r.taken > 0 {
		r.from.Discard(r.taken)
		r.taken, r.arrival = 0, arrival{}
	}
}

// cut returns n bytes, from offset from, of data in two parts.
func cut(first, rest []byte, from, n int) (a, b []byte) {
	k := min(from, len(first))
	a, b = first[k:], rest[from-k:]
	a = a[:min(n, len(a))]
	return a, b[:n-len(a)]
}
