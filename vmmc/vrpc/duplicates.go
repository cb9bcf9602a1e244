package vrpc

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// duplicateKey identifies a call over UDP; retransmissions of a call have the same key.
type duplicateKey struct {
	peer                  netip.AddrPort
	xid, prog, vers, proc uint32
}

// keyOf returns the key of a message. Calls of procedure 0 have no key, because repeating them is
// harmless. Messages that are not calls have none.
func keyOf(peer netip.AddrPort, msg []byte) (k duplicateKey, ok bool) {
	xid, ok := messageXID(msg, msgCall)
	if !ok || len(msg) < 24 {
		return k, false
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(msg[4*i:]) }
	return duplicateKey{peer, xid, word(3), word(4), word(5)}, word(5) != 0
}

// A duplicate is the result of looking up a call.
type duplicate int

const (
	freshCall    duplicate = iota // run it, and notify the cache with finish or forget
	repeatedCall                  // the cache has the reply
	silentCall                    // it is running, or has no reply
)

// duplicates is the duplicate request cache of a UDP socket. A call that is repeated, because it or
// its reply was lost or late, runs its procedure once. The cache removes the oldest replies when
// they expire, or when there are too many.
type duplicates struct {
	maxEntries, maxBytes int
	age                  time.Duration

	mu          sync.Mutex
	calls       map[duplicateKey]*duplicateEntry
	first, last *duplicateEntry // list of finished calls
	free        *duplicateEntry
	bytes       int
	young       *atomic.Uint64 // counts entries that are removed before they expire
}

type duplicateEntry struct {
	key      duplicateKey
	finished bool
	at       time.Time // when the call finished
	reply    []byte
	next     *duplicateEntry
}

func newDuplicates(cfg *ServerConfig, young *atomic.Uint64) *duplicates {
	return &duplicates{
		maxEntries: cfg.DuplicateEntries, maxBytes: cfg.DuplicateBytes, age: cfg.DuplicateAge,
		calls: make(map[duplicateKey]*duplicateEntry), young: young,
	}
}

// begin looks up a call. It appends the reply to a repeated call to reply.
func (t *duplicates) begin(k duplicateKey, now time.Time, reply []byte) ([]byte, duplicate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.first != nil && now.Sub(t.first.at) >= t.age {
		t.drop()
	}
	if e := t.calls[k]; e != nil {
		if !e.finished || len(e.reply) == 0 {
			return reply, silentCall
		}
		return append(reply, e.reply...), repeatedCall
	}
	e := t.free
	if e == nil {
		e = new(duplicateEntry)
	} else {
		t.free = e.next
	}
	e.key, e.finished, e.next = k, false, nil
	t.calls[k] = e
	t.shrink()
	return reply, freshCall
}

// finish stores the reply to a fresh call; an empty one means that there is none.
func (t *duplicates) finish(k duplicateKey, now time.Time, reply []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.calls[k]
	e.finished, e.at, e.reply = true, now, append(e.reply[:0], reply...)
	t.bytes += len(e.reply)
	if t.first == nil {
		t.first = e
	} else {
		t.last.next = e
	}
	t.last = e
	t.shrink()
}

// forget removes a fresh call that was not run.
func (t *duplicates) forget(k duplicateKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, k)
}

// shrink removes entries until the cache is within its bounds. Running calls remain; the number of
// the socket's workers bounds them.
func (t *duplicates) shrink() {
	for t.first != nil && (len(t.calls) > t.maxEntries || t.bytes > t.maxBytes) {
		t.young.Add(1)
		t.drop()
	}
}

// drop removes the call that finished first. The next call reuses its memory, unless that is a long
// buffer for a short reply.
func (t *duplicates) drop() {
	e := t.first
	t.first = e.next
	t.bytes -= len(e.reply)
	delete(t.calls, e.key)
	e.reply = e.reply[:0]
	if cap(e.reply) > streamBuffer {
		e.reply = nil
	}
	e.next, t.free = t.free, e
}
