package vrpc

import "github.com/bobnet-go/bobnet/vmmc/xdr"

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
