package flow

import (
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// ErrPeer is wrapped by every error about the other end's messages: they violate the protocol, and
// nothing that the peer sends can be trusted any more.
var ErrPeer = errclass.New(transport.ErrPeer, "the peer violates the stream protocol")

// Kind is the kind of a Word.
type Kind uint8

// The kinds.
const (
	Data   Kind = 1 // bytes lie in the ring
	Credit Kind = 2 // bytes have been read, receives are posted again
	End    Kind = 3 // no data will follow
)

// Word is the immediate data of a message: a kind in the highest two bits, and
//
//	Data:    30 bits, how many bytes
//	Credit:  8 bits, how many messages, and 22, how many bytes
//	End:     zero
type Word uint32

const (
	dataBits   = 30
	creditBits = 22
)

// MaxRing is the largest ring, in bytes, and MinRing the smallest.
const (
	MinRing = 4 << 10
	MaxRing = 1 << (creditBits - 1)
)

// Depth is the most messages with data in flight to one end, which keeps that many receives posted
// for them. Reserve is the number of further receives for messages without data. A peer has at most
// that many of them in flight: a credit covers a quarter of the ring or half of the messages, and
// there are Hello and End.
const (
	Depth   = 128
	Reserve = 8
)

// DataWord returns the word of n bytes.
func DataWord(n uint32) Word { return Word(Data)<<dataBits | Word(n) }

// EndWord is the word of the end of the stream.
const EndWord = Word(End) << dataBits

// creditWord returns the word of a credit.
func creditWord(messages, bytes uint32) Word {
	return Word(Credit)<<dataBits | Word(messages)<<creditBits | Word(bytes)
}

// Kind returns the word's kind; 0 is not a valid kind.
func (w Word) Kind() Kind { return Kind(w >> dataBits) }

// Bytes returns the number of bytes in a word of data or credit.
func (w Word) Bytes() uint32 {
	if w.Kind() == Data {
		return uint32(w & (1<<dataBits - 1))
	}
	return uint32(w & (1<<creditBits - 1))
}

// Messages returns the number of messages in a credit.
func (w Word) Messages() uint32 { return uint32(w>>creditBits) & 0xff }

// Hello is an end's description of its ring. The end that connects sends it in its request, and the
// other end in the first message of the connection.
type Hello struct {
	Size   uint32 // of the ring, in bytes
	Handle uint32 // of its memory
	Addr   uint64 // of its first byte
}

// HelloSize is the length of a Hello, in bytes.
const HelloSize = 24

const (
	magic   = 0x62737472 // "bstr"
	version = 1
)

// Put encodes h into b, which has room for HelloSize bytes.
func (h *Hello) Put(b []byte) {
	binary.BigEndian.PutUint32(b, magic)
	binary.BigEndian.PutUint16(b[4:], version)
	binary.BigEndian.PutUint16(b[6:], Depth)
	binary.BigEndian.PutUint32(b[8:], h.Size)
	binary.BigEndian.PutUint32(b[12:], h.Handle)
	binary.BigEndian.PutUint64(b[16:], h.Addr)
}

// ParseHello decodes b, which may hold arbitrary bytes.
func ParseHello(b []byte) (Hello, error) {
	if len(b) != HelloSize || binary.BigEndian.Uint32(b) != magic {
		return Hello{}, fmt.Errorf("%w: invalid greeting of %d bytes", ErrPeer, len(b))
	}
	if v, d := binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:]); v != version || d != Depth {
		return Hello{}, fmt.Errorf("%w: version %d with %d messages, this program has version %d with %d: use the same release on both sides", ErrPeer, v, d, version, Depth)
	}
	h := Hello{binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:])}
	if h.Size < MinRing || h.Size > MaxRing || h.Addr > h.Addr+uint64(h.Size) {
		return Hello{}, fmt.Errorf("%w: invalid ring of %d bytes at %#x", ErrPeer, h.Size, h.Addr)
	}
	return h, nil
}
