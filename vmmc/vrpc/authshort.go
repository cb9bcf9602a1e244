package vrpc

import (
	"crypto/rand"
	"slices"
	"sync"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// shorthandSize is how many random bytes stand for a credential: nobody guesses them.
const shorthandSize = 16

// shorthands is the server's table of AUTH_SHORT (RFC 5531 appendix A): what it calls the
// AUTH_SYS credentials that it has seen. When it is full the oldest entry goes; whoever
// uses that is told to begin a new session (AuthRejectedCred).
type shorthands struct {
	limit int

	mu     sync.Mutex
	byName map[[shorthandSize]byte]*shorthand
	byCred map[sysCaller]*shorthand
	order  []*shorthand // a ring of the limit's size, the oldest at next
	next   int
}

// sysCaller is who sends an AUTH_SYS credential.
type sysCaller struct {
	from host
	body string
}

// shorthand is one entry. It does not change, so calls may look at it after it has gone.
type shorthand struct {
	name   [shorthandSize]byte
	caller sysCaller // the name is good for calls from there only
	cred   SysCred
	verf   OpaqueAuth // the verifier that tells the client
}

func newShorthands(limit int) *shorthands {
	return &shorthands{
		limit:  limit,
		byName: make(map[[shorthandSize]byte]*shorthand),
		byCred: make(map[sysCaller]*shorthand),
	}
}

// hand returns the entry for a credential with this body, a new one if need be.
func (t *shorthands) hand(from host, body []byte, cred *SysCred) *shorthand {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byCred[sysCaller{from, string(body)}]; s != nil {
		return s
	}
	s := &shorthand{caller: sysCaller{from, string(body)}, cred: *cred}
	s.cred.GIDs = slices.Clone(cred.GIDs)
	rand.Read(s.name[:])
	var e xdr.Encoder
	(&OpaqueAuth{FlavorShort, s.name[:]}).encode(&e)
	s.verf = OpaqueAuth{FlavorShort, e.Bytes()}
	t.keep(s)
	return s
}

func (t *shorthands) keep(s *shorthand) {
	if len(t.order) < t.limit {
		t.order = append(t.order, s)
	} else {
		old := t.order[t.next]
		delete(t.byName, old.name)
		delete(t.byCred, old.caller)
		t.order[t.next] = s
		t.next = (t.next + 1) % t.limit
	}
	t.byName[s.name] = s
	t.byCred[s.caller] = s
}

// find returns the entry that a credential of AUTH_SHORT names, or nil.
func (t *shorthands) find(from host, body []byte) *shorthand {
	if len(body) != shorthandSize {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byName[[shorthandSize]byte(body)]
	if s == nil || s.caller.from != from {
		return nil
	}
	return s
}
