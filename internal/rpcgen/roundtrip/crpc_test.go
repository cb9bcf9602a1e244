package roundtrip

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/bobnet-go/bobnet/internal/ctest"
	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/all"
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

// TestCClient: a C client calls a server of generated code.
func TestCClient(t *testing.T) {
	program := ctest.Build(t, "../testdata/all/all.x", []string{"-c", "-l"}, "../testdata/c/client.c")
	srv := vrpc.NewServer(nil)
	defer srv.Close()
	if err := srv.Register(all.AllV1Program(echo{})); err != nil {
		t.Fatal(err)
	}
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
