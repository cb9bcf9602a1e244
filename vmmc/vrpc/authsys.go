package vrpc

import (
	"os"
	"sync"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

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
