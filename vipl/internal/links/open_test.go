package links

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// TestOpenCancelled: when the context of an Open ends that waits for the node's agent, Open returns
// an error that is both ErrTimeout and the context's.
func TestOpenCancelled(t *testing.T) {
	p := vethtest.New(t, 1500)
	dir, err := os.MkdirTemp("", "agent") // the other user cannot reach a t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o622)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(agent.EnvPath, path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // an agent that never answers
		if conn, err := l.Accept(); err == nil {
			cancel()
			defer conn.Close()
			conn.Read(make([]byte, 1<<16))
			conn.Read(make([]byte, 1))
		}
	}()
	err = p.In(0, func() error {
		return vethtest.As(4001, func() error {
			link, err := Open(ctx, &Config{Interface: vethtest.Name})
			if err == nil {
				link.Close()
			}
			return err
		})
	})
	if !errors.Is(err, code.ErrTimeout) || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want one that wraps %v and %v", err, code.ErrTimeout, context.Canceled)
	}
}
