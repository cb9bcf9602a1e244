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

// The implemented flavors. A server refuses others with AuthRejectedCred.
const (
	FlavorNone  Flavor = 0 // AUTH_NONE: the caller does not identify itself
	FlavorSys   Flavor = 1 // AUTH_SYS: the caller identifies itself without proof
	FlavorShort Flavor = 2 // AUTH_SHORT: the caller identifies itself by a shorthand that the server chose
)

// maxAuthBody is the longest body of a credential or verifier, in bytes (section 8.2).
const maxAuthBody = 400

// OpaqueAuth is a credential or verifier: opaque_auth of RFC 5531 section 8.2.
type OpaqueAuth struct {
	Flavor Flavor
	Body   []byte // up to 400 bytes
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

// Auth authenticates a client's calls. Any goroutine that calls may use its methods, several at
// once.
type Auth interface {
	// Authenticate returns the credential and the verifier of a call. Their bodies must
	// not change afterwards.
	Authenticate() (cred, verf OpaqueAuth)
	// Verify checks the verifier of a reply to an accepted call. The body is valid until it
	// returns. An error fails the call with AuthInvalidResp.
	Verify(cred, verf OpaqueAuth) error
	// Refresh is called when the server has refused the credential. It reports whether Authenticate
	// now returns another one. The call is then repeated once.
	Refresh(cred OpaqueAuth, stat AuthStat) bool
}

// authNone implements AUTH_NONE.
type authNone struct{}

func (authNone) Authenticate() (cred, verf OpaqueAuth) { return OpaqueAuth{}, OpaqueAuth{} }
func (authNone) Verify(OpaqueAuth, OpaqueAuth) error   { return nil }
func (authNone) Refresh(OpaqueAuth, AuthStat) bool     { return false }

const (
	maxMachineName = 255
	maxGIDs        = 16
)

// SysCred is the body of an AUTH_SYS credential: authsys_parms of RFC 5531 appendix A. Nothing in
// it is proven: the caller claims it.
type SysCred struct {
	Stamp       uint32 // arbitrary, chosen by the caller's machine
	MachineName string // up to 255 bytes
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

// UnmarshalXDR decodes the credential. It allocates only if the name differs from s's, or if s.GIDs
// is too small.
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

// ProcessCred returns the credential of this process: host name, effective user and group, and the
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

// SysAuth is AUTH_SYS at a client, with AUTH_SHORT. It uses the shorthand that a server issues, and
// returns to the full credential when the server no longer knows it. Each server needs its own
// SysAuth.
type SysAuth struct {
	full OpaqueAuth

	mu    sync.Mutex
	short OpaqueAuth // FlavorShort, or empty
}

// NewSysAuth returns AUTH_SYS for the caller that cred describes. If the name or the list of groups
// is too long, the error is xdr.ErrTooLong.
func NewSysAuth(cred SysCred) (*SysAuth, error) {
	body, err := xdr.Append(nil, &cred)
	if err != nil {
		return nil, err
	}
	return &SysAuth{full: OpaqueAuth{FlavorSys, body}}, nil
}

// Authenticate returns the shorthand if the server has issued one, and otherwise the credential.
func (a *SysAuth) Authenticate() (cred, verf OpaqueAuth) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.short.Flavor == FlavorShort {
		return a.short, OpaqueAuth{}
	}
	return a.full, OpaqueAuth{}
}

// Verify stores a shorthand. In C implementations of SunRPC the body of the verifier is an encoded
// credential, although RFC 5531 calls it an opaque structure. Any other body is itself the
// shorthand.
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

// Refresh removes a shorthand that the server has refused.
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

// shorthandSize is the number of random bytes in a shorthand, which makes it unpredictable.
const shorthandSize = 16

// shorthands is the server's table of AUTH_SHORT (RFC 5531 appendix A): shorthands of AUTH_SYS
// credentials. When it is full, the oldest entry is removed. A client that uses a removed entry
// gets AuthRejectedCred and starts a new session.
type shorthands struct {
	limit int

	mu     sync.Mutex
	byName map[[shorthandSize]byte]*shorthand
	byCred map[sysCaller]*shorthand
	order  []*shorthand // a ring with the limit's size, the oldest at next
	next   int
}

// sysCaller is the sender of an AUTH_SYS credential.
type sysCaller struct {
	from host
	body string
}

// shorthand is one entry. It is immutable, so calls may use it after its removal.
type shorthand struct {
	name   [shorthandSize]byte
	caller sysCaller // the shorthand is valid only for calls of this caller
	cred   SysCred
	verf   OpaqueAuth // the verifier that carries the shorthand to the client
}

func newShorthands(limit int) *shorthands {
	return &shorthands{
		limit:  limit,
		byName: make(map[[shorthandSize]byte]*shorthand),
		byCred: make(map[sysCaller]*shorthand),
	}
}

// hand returns the entry for a credential with this body, and creates it if necessary.
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

// find returns the entry for a credential of AUTH_SHORT, or nil.
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
