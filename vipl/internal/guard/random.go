package guard

import (
	crand "crypto/rand"
	"encoding/binary"
	"io"
	"math/rand/v2"
)

// Random makes the numbers by which a NIC and its peers know what is meant for them:
// tags, first sequence numbers, nonces, the NIC's incarnation. Some of them are told to
// anybody, so none may tell another.
type Random struct {
	from io.Reader // never fails
	room [256]byte
	left []byte // of room, not given out yet
}

// Init takes them from the system, or in virtual time from a generator, whose seed
// makes them reproducible; 0 is a random seed.
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
