package vrpc_test

import (
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// The program of the tests.
const (
	testProg = 0x20000042
	testVers = 3
)

// Its procedures.
const (
	procAdd    = 1 // two ints to their sum
	procEcho   = 2 // opaque data to the same
	procFail   = 3 // fails by the number that it gets
	procWho    = 4 // who the caller says that it is
	procSilent = 5 // has no reply
	procCount  = 6 // how many calls of procSilent there were
)

type pair struct{ a, b int32 }

func (p *pair) MarshalXDR(e *xdr.Encoder)   { e.Int(p.a); e.Int(p.b) }
func (p *pair) UnmarshalXDR(d *xdr.Decoder) { p.a, p.b = d.Int(), d.Int() }

type number struct{ n int32 }

func (v *number) MarshalXDR(e *xdr.Encoder)   { e.Int(v.n) }
func (v *number) UnmarshalXDR(d *xdr.Decoder) { v.n = d.Int() }

type blob struct{ data []byte }

func (b *blob) MarshalXDR(e *xdr.Encoder)   { e.Opaque(b.data, xdr.Unbounded) }
func (b *blob) UnmarshalXDR(d *xdr.Decoder) { b.data = d.Opaque(b.data, xdr.Unbounded) }

// failures are what procFail returns.
var failures = []error{
	nil, vrpc.ProcUnavail, vrpc.GarbageArgs, vrpc.SystemErr, vrpc.AuthTooWeak, errors.New("no disk"),
	&vrpc.RPCError{Stat: vrpc.GarbageArgs}, vrpc.ProgMismatch, vrpc.Success,
}

// failPanic is the number for which procFail panics.
const failPanic = 100

func testProgram() *vrpc.Program {
	var silent atomic.Int32
	return &vrpc.Program{Number: testProg, Version: testVers, Name: "test", Procedures: []vrpc.Procedure{
		vrpc.Proc(procAdd, "ADD", func(c *vrpc.Call, arg *pair, res *number) error {
			res.n = arg.a + arg.b
			return nil
		}),
		vrpc.Proc(procEcho, "ECHO", func(c *vrpc.Call, arg *blob, res *blob) error {
			res.data = arg.data
			return nil
		}),
		vrpc.Proc(procFail, "FAIL", func(c *vrpc.Call, arg *number, res *xdr.Void) error {
			if arg.n == failPanic {
				panic("as told")
			}
			return failures[arg.n]
		}),
		vrpc.Proc(procWho, "WHO", func(c *vrpc.Call, arg *xdr.Void, res *vrpc.SysCred) error {
			if c.Sys() == nil {
				return vrpc.AuthTooWeak
			}
			*res = *c.Sys()
			cred, _ := c.Credential()
			res.Stamp = uint32(cred.Flavor) // so that the caller sees which was sent
			return nil
		}),
		vrpc.Proc(procSilent, "SILENT", func(c *vrpc.Call, arg, res *xdr.Void) error {
			silent.Add(1)
			return vrpc.ErrNoReply
		}),
		vrpc.Proc(procCount, "COUNT", func(c *vrpc.Call, arg *xdr.Void, res *number) error {
			res.n = silent.Load()
			return nil
		}),
	}}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newServer returns a server with the test program, closed when the test ends.
func newServer(t testing.TB, cfg vrpc.ServerConfig) *vrpc.Server {
	t.Helper()
	cfg.Logger = quiet()
	s := vrpc.NewServer(&cfg)
	if err := s.Register(testProgram()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && err != vrpc.ErrClosed {
			t.Error(err)
		}
	})
	return s
}

// newDirect returns a client of a server in the same process.
func newDirect(t testing.TB, s *vrpc.Server, cfg *vrpc.ClientConfig) *vrpc.Client {
	t.Helper()
	return vrpc.NewClient(vrpc.Direct(t.Context(), s), testProg, testVers, cfg)
}
