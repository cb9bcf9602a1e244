package mplite

import "encoding/binary"

// Word is a message as a test forges it, or hears it.
type Word struct {
	Kind   uint8
	Flags  uint8
	Tag    int32
	Size   uint64
	SendID uint32
	RecvID uint32
	Addr   uint64 // of a clear or land message
	Handle uint32
	Body   []byte // of all others
}

// Bytes returns w as it goes over a connection.
func (w Word) Bytes() []byte {
	b := make([]byte, headerSize+targetSize)
	h := header{kind: kind(w.Kind), flags: w.Flags, tag: w.Tag, size: w.Size, sendID: w.SendID, recvID: w.RecvID}
	h.put(b)
	if h.kind != kindClear && h.kind != kindLand {
		return append(b[:headerSize], w.Body...)
	}
	t := target{addr: w.Addr, handle: w.Handle}
	t.put(b[headerSize:])
	return b
}

// Hear reads a message that a rank has sent.
func Hear(b []byte) (w Word, ok bool) {
	var h header
	body, ok := h.parse(b)
	if !ok {
		return w, false
	}
	w = Word{Kind: uint8(h.kind), Flags: h.flags, Tag: h.tag, Size: h.size, SendID: h.sendID, RecvID: h.recvID}
	if h.kind == kindClear || h.kind == kindLand {
		var t target
		t.parse(body)
		w.Addr, w.Handle = t.addr, t.handle
	}
	return w, true
}

// The kinds of messages.
const (
	KindEager = uint8(kindEager)
	KindReady = uint8(kindReady)
	KindClear = uint8(kindClear)
	KindDone  = uint8(kindDone)
	KindNack  = uint8(kindNack)
	KindHello = uint8(kindHello)
	KindBye   = uint8(kindBye)
	KindFail  = uint8(kindFail)
	KindLand  = uint8(kindLand)
	KindEnd   = uint8(kindEnd)
)

// FlagSync wants an answer.
const FlagSync = uint8(flagSync)

// Greeting is Hello with the room that the rank says it has.
func Greeting(job string, rank, size, eager, credits int) []byte {
	b := Hello(job, rank, size)
	binary.LittleEndian.PutUint32(b[20:], uint32(eager))
	binary.LittleEndian.PutUint32(b[24:], uint32(credits))
	return b
}

// OfRun is a Hello or Greeting of a rank that knows the run of its job.
func OfRun(hello []byte, nonce uint64) []byte {
	b := append([]byte(nil), hello...)
	binary.LittleEndian.PutUint64(b[28:], nonce)
	return b
}

// RunOf returns the run of the job that a first message tells.
func RunOf(message []byte) uint64 { return binary.LittleEndian.Uint64(message[headerSize+28:]) }
