package rpcbind_test

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc/rpcbind"
)

// process returns a process of VMMC over shared memory.
func process(t *testing.T, number uint32) *vmmc.Process {
	t.Helper()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: number, Job: fmt.Sprint(t.Name(), os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// A server over VMMC is found by rpcbind; where rpcbind does not know it, or nobody is rpcbind,
// by the segment's name service.
func TestDialVMMC(t *testing.T) {
	b := newBinder(t, nil)
	server, client := process(t, 1), process(t, 2)
	s := newProgram(t)
	name, err := s.ListenVMMC(server, 9, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // before its process
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	for _, c := range []struct {
		host string
		set  bool
	}{{"", false}, {nobody, false}, {b.tcp, false}, {b.tcp, true}} {
		if c.set {
			n := rpcbind.Entry{Program: testProg, Version: testVers, Netid: "vmmc", Addr: vrpc.VMMCAddr(name).String()}
			if err := dial(t, "unix", b.unix).Set(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		rpc, err := rpcbind.DialVMMC(t.Context(), client, c.host, testProg, testVers, nil)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		var res word
		if err := rpc.Call(t.Context(), 1, &word{21}, &res); err != nil || res.n != 42 {
			t.Errorf("%+v: %d, %v", c, res.n, err)
		}
		if found := rpc.RemoteAddr().String() == vrpc.VMMCAddr(name).String(); found != c.set {
			t.Errorf("%+v: found at %v", c, rpc.RemoteAddr())
		}
		rpc.Close()
	}
}
