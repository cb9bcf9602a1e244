package vrpc

import (
	"crypto/rand"
	"os"
	"slices"
	"sync"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Flavor is a kind of authentication (RFC 5531 section 8.2).
type Flavor int32

// The flavors that are implemented. A server refuses others with AuthRejectedCred.
const (
	FlavorNone  Flavor = 0 // AUTH_NONE: the caller does not say who it is
	FlavorSys   Flavor = 1 // AUTH_SYS: the caller says who it is, and is believed
	FlavorShort Flavor = 2 // AUTH_SHORT: the caller says what the server called it by
)

// maxAuthBody is how long the body of a credential or verifier may be (section 8.2).
const maxAuthBody = 400

// OpaqueAuth is a credential or verifier: opaque_auth of RFC 5531 section 8.2.
type OpaqueAuth struct {
	Flavor Flavor
	Body   []byte // up to 400 octets
}

func (a *OpaqueAuth) encode(e *xdr.Encoder) {
	e.Int(int32(a.Flavor))
	e.Opaque(a.Body, maxAuthBody)
}

// decode leaves the body in the message.
func (a *OpaqueAuth) decode(d *xdr.Decoder) {
	a.Flavor = Flavor(d.Int())
	a.Body = d.OpaqueView(maxAuthBody)
}

// Auth is how a client's calls say who calls. Its methods are called by any goroutine
// that calls, several at once.
type Auth interface {
	// Authenticate returns the credential and the verifier of a call. Their bodies must
	// not change afterwards.
	Authenticate() (cred, verf OpaqueAuth)
	// Verify looks at the verifier of a reply to an accepted call. The body is valid until
	// it returns. An error fails the call, as AuthInvalidResp.
	Verify(cred, verf OpaqueAuth) error
	// Refresh is told that the server has refused the credential. It reports whether
	// Authenticate now returns another one, with which the call is repeated once.
	Refresh(cred OpaqueAuth, stat AuthStat) bool
}

// authNone is AUTH_NONE.
type authNone struct{}

func (authNone) Authenticate() (cred, verf OpaqueAuth) { return OpaqueAuth{}, OpaqueAuth{} }
func (authNone) Verify(OpaqueAuth, OpaqueAuth) error   { return nil }
func (authNone) Refresh(OpaqueAuth, AuthStat) bool     { return false }

const (
	maxMachineName = 255
	maxGIDs        = 16
)

// SysCred is the body of an AUTH_SYS credential: authsys_parms of RFC 5531 appendix A.
// Nothing in it is proven: the caller says it.
type SysCred struct {
	Stamp       uint32 // arbitrary, of the caller's machine
	MachineName string // up to 255 octets
	UID, GID    uint32
	GIDs        []uint32 // up to 16
}

// MarshalXDR encodes the credential.
func (s *SysCred) MarshalXDR(e *xdr.Encoder) {
	e.Uint(s.Stamp)
	e.String(s.MachineName, maxMachineName)
	e.Uint(s.UID)
	e.Uint(s.GID)
	xdr.EncodeArray(e, s.GIDs, maxGIDs, encodeUint)
}

// UnmarshalXDR decodes the credential. It allocates only for a name that differs from the
// one that s has, and if s.GIDs is too small.
func (s *SysCred) UnmarshalXDR(d *xdr.Decoder) {
	s.Stamp = d.Uint()
	if name := d.StringView(maxMachineName); string(name) != s.MachineName {
		s.MachineName = string(name)
	}
	s.UID, s.GID = d.Uint(), d.Uint()
	s.GIDs = xdr.DecodeArray(d, s.GIDs, maxGIDs, 4, decodeUint)
}

func encodeUint(v *uint32, e *xdr.Encoder) { e.Uint(*v) }
func decodeUint(v *uint32, d *xdr.Decoder) { *v = d.Uint() }

// ProcessCred returns what the process is: host name, effective user and group, and the
// first 16 of its supplementary groups.
func ProcessCred() SysCred {
	c := SysCred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	c.MachineName, _ = os.Hostname() // without a name it is empty
	c.MachineName = c.MachineName[:min(len(c.MachineName), maxMachineName)]
	groups, _ := os.Getgroups()
	for _, g := range groups[:min(len(groups), maxGIDs)] {
		c.GIDs = append(c.GIDs, uint32(g))
	}
	return c
}

// SysAuth is AUTH_SYS at a client, with AUTH_SHORT: it uses the shorthand that a server
// hands out, and returns to the full credential when the server no longer knows it. One
// SysAuth is for one server.
type SysAuth struct {
	full OpaqueAuth

	mu    sync.Mutex
	short OpaqueAuth // FlavorShort, or nothing
}

// NewSysAuth returns AUTH_SYS for the caller that cred describes. A name or list of groups
// that is too long is an error, xdr.ErrTooLong.
func NewSysAuth(cred SysCred) (*SysAuth, error) {
	body, err := xdr.Append(nil, &cred)
	if err != nil {
		return nil, err
	}
	return &SysAuth{full: OpaqueAuth{FlavorSys, body}}, nil
}

// Authenticate returns the shorthand, if the server has handed out one, or the credential.
func (a *SysAuth) Authenticate() (cred, verf OpaqueAuth) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.short.Flavor == FlavorShort {
		return a.short, OpaqueAuth{}
	}
	return a.full, OpaqueAuth{}
}

// Verify keeps a shorthand. The body of the verifier is an encoded credential, as C
// implementations of SunRPC have it where RFC 5531 says "an opaque structure"; another body is
// taken for the shorthand itself.
func (a *SysAuth) Verify(_, verf OpaqueAuth) error {
	if verf.Flavor != FlavorShort {
		return nil
	}
	var d xdr.Decoder
	d.Reset(verf.Body)
	var cred OpaqueAuth
	if cred.decode(&d); d.End() != nil || cred.Flavor != FlavorShort {
		cred = verf
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if string(a.short.Body) != string(cred.Body) || a.short.Flavor != FlavorShort {
		a.short = OpaqueAuth{FlavorShort, append([]byte(nil), cred.Body...)}
	}
	return nil
}

// Refresh forgets a shorthand that the server has refused.
func (a *SysAuth) Refresh(cred OpaqueAuth, stat AuthStat) bool {
	if cred.Flavor != FlavorShort {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if string(a.short.Body) == string(cred.Body) {
		a.short = OpaqueAuth{}
	}
	return true
}

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
