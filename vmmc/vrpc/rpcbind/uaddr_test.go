package rpcbind_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc/rpcbind"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

func contextWithCancel(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func TestUniversalAddr(t *testing.T) {
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 2049}, "192.0.2.1.8.1"},
		{&net.UDPAddr{IP: net.ParseIP("2001:db8::1"), Port: 65535}, "2001:db8::1.255.255"},
		{&net.UDPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1}, "fe80::1.0.1"},
		{&net.UnixAddr{Name: "/run/x", Net: "unix"}, "/run/x"},
	} {
		got := rpcbind.UniversalAddr(c.addr)
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.addr, got, c.want)
		}
		if strings.HasPrefix(got, "/") {
			continue
		}
		if back, err := rpcbind.ParseAddr(got); err != nil || rpcbind.UniversalAddr(net.TCPAddrFromAddrPort(back)) != got {
			t.Errorf("%q is %v, %v", got, back, err)
		}
	}
	for _, bad := range []string{"", "1", "1.2", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.256.1", "1.2.3.4.1.-1", "1.2.3.4.1.+1", "1.2.3.4.1.0001",
		"x.1.1", "fe80::1%eth0.1.1", ".1.1", "1.2.3.4..1", "1.2.3.4.1."} {
		if a, err := rpcbind.ParseAddr(bad); !errors.Is(err, rpcbind.ErrAddr) {
			t.Errorf("%q is %v, %v", bad, a, err)
		}
	}
}

// Whatever a caller sends, each procedure answers, and the server goes on.
func FuzzServer(f *testing.F) {
	v := vrpc.NewServer(nil)
	defer v.Close()
	if err := rpcbind.NewServer(nil).Register(v); err != nil {
		f.Fatal(err)
	}
	c := vrpc.NewClient(vrpc.Direct(context.Background(), v), rpcbind.Program, rpcbind.Version4, nil)
	entry, _ := xdr.Append(nil, &rpcbind.Entry{Program: 5, Version: 6, Netid: "tcp", Addr: "1.2.3.4.5.6"})
	f.Add(uint32(4), uint32(1), entry)
	f.Add(uint32(2), uint32(1), make([]byte, 16))
	f.Add(uint32(4), uint32(8), []byte{0, 0, 0, 16, 0, 0, 0, 16, 2, 0, 8, 1, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, vers, proc uint32, args []byte) {
		a := opaque(args[:len(args)&^3])
		var res opaque
		err := c.Program(rpcbind.Program, 2+vers%3).Call(t.Context(), proc%14, &a, &res)
		var rpc *vrpc.RPCError
		if err != nil && !errors.As(err, &rpc) && !errors.Is(err, vrpc.ErrTimeout) { // no reply is one of CALLIT's answers
			t.Fatal(err)
		}
		if errors.Is(err, vrpc.SystemErr) {
			t.Fatal(err)
		}
	})
}

type opaque []byte

func (o *opaque) MarshalXDR(e *xdr.Encoder)   { e.FixedOpaque(*o) }
func (o *opaque) UnmarshalXDR(d *xdr.Decoder) { *o = d.FixedOpaqueView(len(d.Rest())) }
