package guard

import (
	crand "crypto/rand"
	"encoding/binary"
	"io"
	"math/rand/v2"
)

// Random generates the numbers by which a NIC and its peers recognize their frames: tags, first
// sequence numbers, nonces, the NIC's incarnation. Any station may learn some of them, so none may
// allow predicting another.
type Random struct {
	from io.Reader // never fails
	room [256]byte
	left []byte // rest of room
}

// Init initializes the generator. It reads the system's random source, or in virtual time a
// generator whose seed makes the numbers reproducible; 0 is a random seed.
func (r *Random) Init(seed uint64, virtual bool) {
	r.from, r.left = crand.Reader, nil
	if virtual && seed != 0 {
		var key [32]byte
		binary.NativeEndian.PutUint64(key[:], seed)
		r.from = rand.NewChaCha8(key)
	}
}

// Uint64 returns a new number.
func (r *Random) Uint64() uint64 {
	if len(r.left) < 8 {
		r.left = r.room[:]
		io.ReadFull(r.from, r.left)
	}
	x := binary.NativeEndian.Uint64(r.left)
	clear(r.left[:8])
	r.left = r.left[8:]
	return x
}

// Tag returns a new connection tag, which is never 0.
func (r *Random) Tag() uint32 {
	for {
		if t := uint32(r.Uint64()); t != 0 {
			return t
		}
	}
}
