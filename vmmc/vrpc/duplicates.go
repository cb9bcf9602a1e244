package vrpc

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// duplicateKey names a call by UDP: its client repeats it under the same.
type duplicateKey struct {
	peer                  netip.AddrPort
	xid, prog, vers, proc uint32
}

// keyOf returns the key of a message. Calls of procedure 0 have none, because it does
// nothing that must not be done twice; what is no call has none.
func keyOf(peer netip.AddrPort, msg []byte) (k duplicateKey, ok bool) {
	xid, ok := messageXID(msg, msgCall)
	if !ok || len(msg) < 24 {
		return k, false
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(msg[4*i:]) }
	return duplicateKey{peer, xid, word(3), word(4), word(5)}, word(5) != 0
}

// A duplicate says whether a call has been seen.
type duplicate int

const (
	freshCall    duplicate = iota // carry it out, and tell the cache with finish or forget
	repeatedCall                  // here is the reply
	silentCall                    // it is being carried out, or has no reply
)

// duplicates is the duplicate request cache of a UDP socket: a call that is repeated,
// because it or its reply was lost or late, runs its procedure once. The replies that were
// finished first leave it when they are old, or too many.
type duplicates struct {
	maxEntries, maxBytes int
	age                  time.Duration

	mu          sync.Mutex
	calls       map[duplicateKey]*duplicateEntry
	first, last *duplicateEntry // of the finished ones
	free        *duplicateEntry
	bytes       int
	young       *atomic.Uint64 // counts entries that leave before their time
}

type duplicateEntry struct {
	key      duplicateKey
	finished bool
	at       time.Time // when
	reply    []byte
	next     *duplicateEntry
}

func newDuplicates(cfg *ServerConfig, young *atomic.Uint64) *duplicates {
	return &duplicates{
		maxEntries: cfg.DuplicateEntries, maxBytes: cfg.DuplicateBytes, age: cfg.DuplicateAge,
		calls: make(map[duplicateKey]*duplicateEntry), young: young,
	}
}

// begin looks a call up. The reply to a repeated one is appended to reply.
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

// finish keeps the reply to a call that begin let pass; an empty one says that there is none.
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

// forget takes out a call that begin let pass and that was not carried out.
func (t *duplicates) forget(k duplicateKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, k)
}

// shrink brings the cache back into its bounds. Calls that are being carried out stay; the
// socket's workers bound them.
func (t *duplicates) shrink() {
	for t.first != nil && (len(t.calls) > t.maxEntries || t.bytes > t.maxBytes) {
		t.young.Add(1)
		t.drop()
	}
}

// drop takes out the call that was finished first. Its memory is for the next, unless that
// would keep a long reply for short ones.
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
