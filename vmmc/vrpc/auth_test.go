package vrpc_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

func sysAuth(t testing.TB, cred vrpc.SysCred) *vrpc.SysAuth {
	t.Helper()
	a, err := vrpc.NewSysAuth(cred)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestSysAuth(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	cred := vrpc.SysCred{Stamp: 1, MachineName: "host", UID: 1000, GID: 100, GIDs: []uint32{4, 20}}
	c := listen(t, s, "tcp", &vrpc.ClientConfig{Auth: sysAuth(t, cred)})
	for range 2 {
		var got vrpc.SysCred
		err := c.Call(t.Context(), procWho, &xdr.Void{}, &got)
		if err != nil || got.MachineName != "host" || got.UID != 1000 || got.GID != 100 || !slices.Equal(got.GIDs, cred.GIDs) || got.Stamp != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, bad := range []vrpc.SysCred{{MachineName: strings.Repeat("x", 256)}, {GIDs: make([]uint32, 17)}} {
		if _, err := vrpc.NewSysAuth(bad); !errors.Is(err, xdr.ErrTooLong) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := vrpc.NewSysAuth(vrpc.ProcessCred()); err != nil {
		t.Errorf("the process: %v", err)
	}
}

// The second call goes by the shorthand; a server that has forgotten it gets the whole
// credential again.
func TestShorthand(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{Shorthands: 2})
	who := func(c *vrpc.Client, uid uint32, flavor vrpc.Flavor) {
		t.Helper()
		var got vrpc.SysCred
		err := c.Call(t.Context(), procWho, &xdr.Void{}, &got)
		if err != nil || got.UID != uid || vrpc.Flavor(got.Stamp) != flavor {
			t.Errorf("user %d by flavor %d, %v, want %d by %d", got.UID, got.Stamp, err, uid, flavor)
		}
	}
	var clients []*vrpc.Client
	for uid := range uint32(3) {
		c := listen(t, s, "tcp", &vrpc.ClientConfig{Auth: sysAuth(t, vrpc.SysCred{UID: uid})})
		who(c, uid, vrpc.FlavorSys)
		who(c, uid, vrpc.FlavorShort)
		clients = append(clients, c)
	}
	who(clients[1], 1, vrpc.FlavorShort)
	who(clients[0], 0, vrpc.FlavorSys) // the third has taken its place
	who(clients[0], 0, vrpc.FlavorShort)
	if n := s.Snapshot(); n.AuthErrors[vrpc.AuthRejectedCred] != 1 {
		t.Errorf("%d rejected", n.AuthErrors[vrpc.AuthRejectedCred])
	}
}

// A shorthand is good for calls from its own host.
func TestShorthandOfOthers(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{Shorthands: 2})
	a := sysAuth(t, vrpc.SysCred{UID: 1})
	if err := newDirect(t, s, &vrpc.ClientConfig{Auth: a}).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	cred, _ := a.Authenticate()
	if cred.Flavor != vrpc.FlavorShort {
		t.Fatalf("%+v", cred)
	}
	c := listen(t, s, "tcp", &vrpc.ClientConfig{Auth: stolen{cred}})
	if err := c.Call(t.Context(), procWho, &xdr.Void{}, &vrpc.SysCred{}); !errors.Is(err, vrpc.AuthRejectedCred) {
		t.Error(err)
	}
}

type stolen struct{ cred vrpc.OpaqueAuth }

func (s stolen) Authenticate() (cred, verf vrpc.OpaqueAuth)  { return s.cred, vrpc.OpaqueAuth{} }
func (stolen) Verify(vrpc.OpaqueAuth, vrpc.OpaqueAuth) error { return nil }
func (stolen) Refresh(vrpc.OpaqueAuth, vrpc.AuthStat) bool   { return false }

// A verifier that the client does not believe fails the call.
type suspicious struct{ stolen }

func (suspicious) Verify(vrpc.OpaqueAuth, vrpc.OpaqueAuth) error { return errors.New("forged") }

func TestInvalidResponse(t *testing.T) {
	c := newDirect(t, newServer(t, vrpc.ServerConfig{}), &vrpc.ClientConfig{Auth: suspicious{}})
	if err := c.Ping(t.Context()); !errors.Is(err, vrpc.AuthInvalidResp) || !errors.Is(err, vrpc.AuthError) {
		t.Error(err)
	}
}
