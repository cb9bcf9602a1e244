package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// source is what records are taken from: a stream.Conn.
type source interface {
	Peek(n int) (first, rest []byte, err error)
	Discard(n int)
}

// records takes a stream of records apart.
type records struct {
	from  source
	begin [beginSize]byte
	taken int // octets of the record that has been handed out
	arrival
}

// arrival is what a record has behind its length. The beginning, in which are all headers that
// are looked at, is a copy, because a neighbour could change it after that; the rest is where
// the stream has it.
type arrival struct {
	parts [3][]byte
	n     int // octets in all
}

// beginSize is how long the beginning is: the kernel's header, and the longest one of IP or more.
const beginSize = 128

// offload returns the kernel's header.
func (r *arrival) offload() []byte { return r.parts[0][:vnetSize] }

// packet returns the beginning of the packet, and how long that is in all.
func (r *arrival) packet() (begin []byte, n int) { return r.parts[0][vnetSize:], r.n - vnetSize }

// errRecord is wrapped by the error for a length that no record has.
var errRecord = errors.New("a record has a length that none can have")

func newRecords(from source) *records { return &records{from: from} }

// next returns the next record, which is valid until the next call, or that of end. It returns
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
		return nil, fmt.Errorf("%w: %d octets, want %d to %d", errRecord, n, vnetSize+1, maxRecord)
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

// end gives back the record that next has returned.
func (r *records) end() {
	if r.taken > 0 {
		r.from.Discard(r.taken)
		r.taken, r.arrival = 0, arrival{}
	}
}

// cut returns n octets of what lies in two parts, from one of them on.
func cut(first, rest []byte, from, n int) (a, b []byte) {
	k := min(from, len(first))
	a, b = first[k:], rest[from-k:]
	a = a[:min(n, len(a))]
	return a, b[:n-len(a)]
}
