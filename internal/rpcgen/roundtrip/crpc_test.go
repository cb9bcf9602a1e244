package roundtrip

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/bobnet-go/bobnet/internal/ctest"
	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/all"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// networks are those that C programs have.
var networks = []string{"tcp", "udp"}

// echo is a server of all.x.
type echo struct{}

func (echo) Echo(_ *vrpc.Call, arg, res *all.Everything) error {
	*res = *arg
	return nil
}

// overVMMC returns a client of srv over VMMC, from another process of it in shared memory.
func overVMMC(t *testing.T, srv *vrpc.Server) *vrpc.Client {
	t.Helper()
	var ps [2]*vmmc.Process
	for i := range ps {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		if ps[i], err = vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: uint32(i), Job: fmt.Sprint(t.Name(), os.Getpid())}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ps[i].Close() })
	}
	name, err := srv.ListenVMMC(ps[0], 1, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := vrpc.DialVMMC(t.Context(), ps[1], name, all.AllProg, all.AllV1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rpc.Close() })
	return rpc
}

// keepCalling has a client echo values, one after another, until stop is called, which fails
// the test if an answer was another or there was none.
func keepCalling(t *testing.T, rpc *vrpc.Client) (stop func()) {
	t.Helper()
	client := all.AllV1Client{Client: rpc}
	_, messages := framed(t, 10)
	over, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for seed := 0; ; seed = (seed + 1) % len(messages) {
			var arg, res all.Everything
			err := xdr.Unmarshal(messages[seed], &arg)
			if err == nil {
				err = client.Echo(t.Context(), &arg, &res)
			}
			if got, err2 := xdr.Append(nil, &res); err != nil || err2 != nil || !bytes.Equal(got, messages[seed]) {
				done <- fmt.Errorf("seed %d: %x, %v, %v", seed, got, err, err2)
				return
			}
			select {
			case <-over:
				done <- nil
				return
			default:
			}
		}
	}()
	return func() {
		close(over)
		if err := <-done; err != nil {
			t.Error("over VMMC meanwhile:", err)
		}
	}
}

// TestCClient: a C client calls a server of generated code, while a client over VMMC calls it.
func TestCClient(t *testing.T) {
	program := ctest.Build(t, "../testdata/all/all.x", []string{"-c", "-l"}, "../testdata/c/client.c")
	srv := vrpc.NewServer(nil)
	defer srv.Close()
	if err := srv.Register(all.AllV1Program(echo{})); err != nil {
		t.Fatal(err)
	}
	defer keepCalling(t, overVMMC(t, srv))()
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			addr, err := srv.Listen(network, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, err := net.SplitHostPort(addr.String())
			if err != nil {
				t.Fatal(err)
			}
			through(t, 50, program, network, port)
		})
	}
}

// TestCServer: a generated client calls a C server.
func TestCServer(t *testing.T) {
	program := ctest.Build(t, "../testdata/all/all.x", []string{"-c", "-m"}, "../testdata/c/server.c")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		cmd.Wait() // which says that it was killed
	}()
	ports := make([]int, len(networks))
	if _, err := fmt.Fscan(out, &ports[0], &ports[1]); err != nil {
		t.Fatal("the C server's ports:", err)
	}
	_, messages := framed(t, 50)
	for i, network := range networks {
		t.Run(network, func(t *testing.T) {
			rpc, err := vrpc.Dial(ctx, network, fmt.Sprintf("127.0.0.1:%d", ports[i]), all.AllProg, all.AllV1, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer rpc.Close()
			client := all.AllV1Client{Client: rpc}
			if err := client.AllNull(ctx); err != nil {
				t.Fatal(err)
			}
			for seed, msg := range messages {
				var arg, res all.Everything
				if err := xdr.Unmarshal(msg, &arg); err != nil {
					t.Fatal(err)
				}
				if err := client.Echo(ctx, &arg, &res); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if got, err := xdr.Append(nil, &res); err != nil || !bytes.Equal(got, msg) {
					t.Fatalf("seed %d: the C server says\n%x, sent\n%x (%v)", seed, got, msg, err)
				}
			}
		})
	}
}
