package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"golang.org/x/sys/unix"
)

// TestCardUsers: four programs of two users share one card, whose control program is AM-II's or VMMC's.
// Those of VMMC write to each other's memory, or call remote procedures. The card at the other end of the cable has none.
func TestCardUsers(t *testing.T) {
	needLab(t)
	program := copyForAll(t)
	dir := filepath.Dir(program)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", dir+"/", "../../examples/kv", "../../examples/blackboard")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	if err := os.Link(program, filepath.Join(dir, "rpcuser")); err != nil {
		t.Fatal(err)
	}
	veth := vethtest.New(t, 1500)
	for _, tt := range []struct{ control, example string }{{share.AMII, "kv"}, {share.VMMC, "blackboard"}, {share.VMMC, "rpcuser"}} {
		t.Run(tt.control+"-"+tt.example, func(t *testing.T) {
			for side := range 2 {
				startServed(t, veth, side, program, tt.control)
			}
			const ranks = 4
			users := [ranks]uint32{4321, 4322, 4321, 4322}
			ctx, cancel := context.WithTimeout(t.Context(), servingPatience)
			defer cancel()
			var outs [ranks]bytes.Buffer
			var cmds [ranks]*exec.Cmd
			for rank := range cmds {
				cmd := exec.CommandContext(ctx, filepath.Join(dir, tt.example), "-card", "-n", "200")
				cmd.Env = append(os.Environ(), "BOBNET_IFACE="+vethtest.Name, fmt.Sprintf("BOBNET_SIZE=%d", ranks), fmt.Sprintf("BOBNET_RANK=%d", rank))
				cmd.Stdout, cmd.Stderr = &outs[rank], &outs[rank]
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: users[rank], Gid: users[rank]}}
				if err := veth.In(0, cmd.Start); err != nil {
					t.Fatal(err)
				}
				cmds[rank] = cmd
			}
			sums := map[string]bool{}
			for rank, cmd := range cmds {
				if err := cmd.Wait(); err != nil {
					t.Errorf("rank %d, user %d: %v\n%s", rank, users[rank], err, outs[rank].Bytes())
				}
				for _, sum := range regexp.MustCompile(`checksum \w+`).FindAllString(outs[rank].String(), -1) {
					sums[sum] = true
				}
			}
			if tt.example == "blackboard" && len(sums) != 1 {
				t.Errorf("the writers have seen boards with %d checksums", len(sums))
			}
		})
	}
}

// startServed starts bobnet card at a side of a cable, and waits until programs can come.
func startServed(t *testing.T, veth *vethtest.Pair, side int, program, control string) {
	t.Helper()
	cmd := exec.Command(program, "card", "--iface", vethtest.Name, "--program", control, "--any-user")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = veth.In(side, cmd.Start)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(unix.SIGTERM)
		cmd.Wait()
	})
	r := bufio.NewReader(out)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatalf("bobnet card --program %s: %v", control, err)
	}
	go io.Copy(io.Discard, r)
	ctx, cancel := context.WithTimeout(t.Context(), servingPatience)
	defer cancel()
	err = veth.In(side, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		return share.Await(ctx, at)
	})
	if err != nil {
		t.Fatal(err)
	}
}
