package mplite

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// hello is what a rank says of itself: the private data of its requests for
// connections, and the body of the first message over each.
type hello struct {
	job     uint64 // hash of the job's name
	nonce   uint64 // of this run of the job; 0 while the rank does not know it
	rank    uint32
	size    uint32 // ranks in the job
	eager   uint32 // payload bytes that my receive buffers take
	credits uint32 // receive buffers that the peer may fill with data messages
}

const helloSize = 36

// wireVersion changes whenever the format of a hello or a message does.
const wireVersion = 4

func (m *hello) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b, wireVersion)
	le.PutUint64(b[4:], m.job)
	le.PutUint32(b[12:], m.rank)
	le.PutUint32(b[16:], m.size)
	le.PutUint32(b[20:], m.eager)
	le.PutUint32(b[24:], m.credits)
	le.PutUint64(b[28:], m.nonce)
}

// parse decodes b, which may be any bytes, and returns the sender's version of
// the format; the rest is valid only if that is wireVersion.
func (m *hello) parse(b []byte) (version uint32) {
	if len(b) < 4 {
		return 0
	}
	le := binary.LittleEndian
	version = le.Uint32(b)
	switch {
	case version != wireVersion:
		return version
	case len(b) < helloSize:
		return 0
	}
	m.job = le.Uint64(b[4:])
	m.rank = le.Uint32(b[12:])
	m.size = le.Uint32(b[16:])
	m.eager = le.Uint32(b[20:])
	m.credits = le.Uint32(b[24:])
	m.nonce = le.Uint64(b[28:])
	return version
}

// hello returns what this rank says of itself.
func (w *world) hello() hello {
	h := fnv.New64a()
	h.Write([]byte(w.job))
	return hello{
		job: h.Sum64(), nonce: w.nonce, rank: uint32(w.rank), size: uint32(w.size),
		eager: uint32(w.cfg.EagerSize), credits: uint32(w.cfg.Credits),
	}
}

// examine says what is wrong with one who says that it is of this job. The ranks
// of a run know it by the nonce that rank 0 has drawn: another run of a job of the
// same name has another one. Only to rank 0 may a rank come without.
func (w *world) examine(m *hello, version uint32) error {
	mine := w.hello()
	newcomer := m.nonce == 0 && w.rank == 0
	switch {
	case version != wireVersion:
		return fmt.Errorf("MPLite wire version %d, this is %d: build all ranks from one source", version, wireVersion)
	case m.job != mine.job:
		return fmt.Errorf("not of this job: its name hashes to %x, that of job %q to %x", m.job, w.job, mine.job)
	case m.size != mine.size:
		return fmt.Errorf("job %q has %d ranks according to rank %d and %d according to rank %d: start all ranks with the same %s",
			w.job, m.size, m.rank, w.size, w.rank, EnvSize)
	case m.rank >= m.size:
		return fmt.Errorf("rank %d of %d asks rank %d: there is no such rank", m.rank, m.size, w.rank)
	case int(m.rank) != w.rank && m.nonce != mine.nonce && !newcomer:
		return fmt.Errorf("rank %d belongs to another run of job %q than rank %d: give every run a name of its own by %s", m.rank, w.job, w.rank, EnvJob)
	}
	return nil
}
