package vrpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// listen makes s answer on the loopback and returns a client.
func listen(t testing.TB, s *vrpc.Server, network string, cfg *vrpc.ClientConfig) *vrpc.Client {
	t.Helper()
	address := "127.0.0.1:0"
	switch network {
	case "vmmc":
		return listenVMMC(t, s, cfg)
	case "unix":
		address = filepath.Join(t.TempDir(), "socket")
	case "tcp6", "udp6":
		address = "[::1]:0"
	}
	addr, err := s.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, network, addr.String(), cfg)
}

func dial(t testing.TB, network, address string, cfg *vrpc.ClientConfig) *vrpc.Client {
	t.Helper()
	c, err := vrpc.Dial(t.Context(), network, address, testProg, testVers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// every calls f for each network, all of one server.
func every(t *testing.T, f func(t *testing.T, network string, c *vrpc.Client)) {
	s := newServer(t, vrpc.ServerConfig{DuplicateEntries: 16})
	for _, network := range []string{"tcp", "udp", "unix", "direct", "vmmc"} {
		t.Run(network, func(t *testing.T) {
			if network == "direct" {
				f(t, network, newDirect(t, s, nil))
				return
			}
			f(t, network, listen(t, s, network, nil))
		})
	}
}

// One server answers clients of all transports, many calls at once.
func TestCallsEverywhere(t *testing.T) {
	every(t, func(t *testing.T, network string, c *vrpc.Client) {
		var group sync.WaitGroup
		for g := range int32(8) {
			group.Go(func() {
				for i := range int32(100) {
					var sum number
					if err := c.Call(t.Context(), procAdd, &pair{i, 1000 * g}, &sum); err != nil || sum.n != i+1000*g {
						t.Errorf("%d + %d is %d, %v", i, 1000*g, sum.n, err)
						return
					}
				}
			})
		}
		group.Wait()
		if err := c.Program(testProg, 1).Ping(t.Context()); !errors.Is(err, vrpc.ProgMismatch) {
			t.Error(err)
		}
	})
}

// Messages of many lengths, in fragments of few bytes, both ways.
func TestLengths(t *testing.T) {
	for _, fragment := range []int{0, 1, 7, 1000} {
		t.Run(fmt.Sprint(fragment), func(t *testing.T) {
			s := newServer(t, vrpc.ServerConfig{MaxFragment: fragment})
			c := listen(t, s, "tcp", &vrpc.ClientConfig{MaxFragment: fragment})
			for _, n := range []int{0, 1, 3, 4, 999, 4096, 5000, 65536, 300000} {
				if fragment == 1 && n > 5000 {
					continue
				}
				data := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, n/7+1)[:n]
				var back blob
				if err := c.Call(t.Context(), procEcho, &blob{data}, &back); err != nil || !bytes.Equal(back.data, data) {
					t.Fatalf("%d bytes: %d, %v", n, len(back.data), err)
				}
			}
		})
	}
}

// What is too long is refused on the side that would send it.
func TestTooLarge(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{MaxMessage: 10000})
	udp := listen(t, s, "udp", nil)
	if err := udp.Call(t.Context(), procEcho, &blob{make([]byte, 70000)}, &blob{}); !errors.Is(err, vrpc.ErrTooLarge) {
		t.Errorf("call by UDP: %v", err)
	}
	if err := udp.Batch(t.Context(), procEcho, &blob{make([]byte, 70000)}); !errors.Is(err, vrpc.ErrTooLarge) {
		t.Errorf("batched call by UDP: %v", err)
	}
	tcp := listen(t, s, "tcp", &vrpc.ClientConfig{MaxMessage: 20000})
	if err := tcp.Call(t.Context(), procEcho, &blob{make([]byte, 20000)}, &blob{}); !errors.Is(err, vrpc.ErrTooLarge) {
		t.Errorf("call over TCP, longer than the client's limit: %v", err)
	}
	if err := tcp.Call(t.Context(), procEcho, &blob{make([]byte, 9990)}, &blob{}); !errors.Is(err, vrpc.ErrTransport) {
		t.Errorf("call over TCP, longer than the server's limit: %v", err)
	}
	if err := tcp.Ping(t.Context()); err != nil {
		t.Errorf("after a broken connection: %v", err)
	}
	if n := s.Snapshot(); n.ConnsBroken != 1 {
		t.Errorf("%d broken connections", n.ConnsBroken)
	}
}

// Batched calls are carried out before the call that pushes them out.
func TestBatch(t *testing.T) {
	streams(t, func(t *testing.T, c *vrpc.Client) {
		for range 5000 { // more than are kept back
			if err := c.Batch(t.Context(), procSilent, &xdr.Void{}); err != nil {
				t.Fatal(err)
			}
		}
		var n number
		if err := c.Call(t.Context(), procCount, &xdr.Void{}, &n); err != nil || n.n != 5000 {
			t.Errorf("%d batched calls arrived, %v", n.n, err)
		}
	})
}

// streams calls f for each transport that keeps the order of calls.
func streams(t *testing.T, f func(t *testing.T, c *vrpc.Client)) {
	for _, network := range []string{"tcp", "vmmc"} {
		t.Run(network, func(t *testing.T) { f(t, listen(t, newServer(t, vrpc.ServerConfig{}), network, nil)) })
	}
}

// Batched calls whose procedure does reply do no harm.
func TestBatchWithReplies(t *testing.T) {
	streams(t, func(t *testing.T, c *vrpc.Client) {
		for i := range int32(5000) {
			if err := c.Batch(t.Context(), procAdd, &pair{i, i}); err != nil {
				t.Fatal(err)
			}
		}
		var n number
		if err := c.Call(t.Context(), procAdd, &pair{1, 2}, &n); err != nil || n.n != 3 {
			t.Errorf("%d, %v", n.n, err)
		}
		if n := c.Snapshot(); n.Strays != 5000 || n.Connections != 1 {
			t.Errorf("counted %+v", n)
		}
	})
}

// A client's context ends its call, and no other.
func TestContext(t *testing.T) {
	every(t, func(t *testing.T, network string, c *vrpc.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Ping(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ended before the call: %v", err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// blocker is a program whose procedure 1 says that it runs and then waits for its context
// or a word.
func blocker(s *vrpc.Server, running chan<- struct{}, word <-chan struct{}) error {
	return s.Register(&vrpc.Program{Number: testProg + 1, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "BLOCK", func(c *vrpc.Call, _, _ *xdr.Void) error {
			running <- struct{}{}
			select {
			case <-c.Context().Done():
			case <-word:
			}
			return nil
		}),
	}})
}

func TestContextEndsWhileWaiting(t *testing.T) {
	for _, network := range []string{"tcp", "udp", "vmmc"} {
		t.Run(network, func(t *testing.T) {
			s := newServer(t, vrpc.ServerConfig{})
			running, word := make(chan struct{}), make(chan struct{})
			if err := blocker(s, running, word); err != nil {
				t.Fatal(err)
			}
			c := listen(t, s, network, nil)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-running
				cancel()
			}()
			err := c.Program(testProg+1, 1).Call(ctx, 1, &xdr.Void{}, &xdr.Void{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			close(word)
			for c.Snapshot().Strays == 0 { // until the late reply has come
				if err := c.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// With Parallel, calls of one connection pass each other.
func TestParallel(t *testing.T) {
	for _, network := range []string{"tcp", "vmmc"} {
		t.Run(network, func(t *testing.T) { parallel(t, network) })
	}
}

func parallel(t *testing.T, network string) {
	s := newServer(t, vrpc.ServerConfig{Parallel: 3})
	running, word := make(chan struct{}), make(chan struct{})
	if err := blocker(s, running, word); err != nil {
		t.Fatal(err)
	}
	c := listen(t, s, network, nil)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if err := c.Program(testProg+1, 1).Call(t.Context(), 1, &xdr.Void{}, &xdr.Void{}); err != nil {
				t.Error(err)
			}
		})
		<-running
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	close(word)
	group.Wait()
}

// Close ends calls on both sides.
func TestClose(t *testing.T) {
	for _, network := range []string{"tcp", "udp", "unix", "vmmc"} {
		for _, who := range []string{"client", "server"} {
			if network == "udp" && who == "server" {
				continue // the client cannot know
			}
			t.Run(network+" "+who, func(t *testing.T) {
				s := newServer(t, vrpc.ServerConfig{})
				running := make(chan struct{})
				if err := blocker(s, running, nil); err != nil {
					t.Fatal(err)
				}
				c := listen(t, s, network, nil)
				result := make(chan error)
				go func() {
					result <- c.Program(testProg+1, 1).Call(t.Context(), 1, &xdr.Void{}, &xdr.Void{})
				}()
				<-running
				want := vrpc.ErrTransport
				if who == "client" {
					want = vrpc.ErrClosed
					c.Close()
					if err := c.Ping(t.Context()); !errors.Is(err, want) {
						t.Errorf("call of a closed client: %v", err)
					}
					if err := c.Batch(t.Context(), 1, &xdr.Void{}); !errors.Is(err, want) {
						t.Errorf("batched call of a closed client: %v", err)
					}
				} else if err := s.Close(); err != nil {
					t.Error(err)
				}
				if err := <-result; !errors.Is(err, want) {
					t.Errorf("call under way: %v, want %v", err, want)
				}
			})
		}
	}
}

// Nobody answers: the error says so, and what may have happened.
func TestNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var te *vrpc.TransportError
	if _, err := vrpc.Dial(t.Context(), "tcp", address, 1, 1, nil); !errors.As(err, &te) || te.Sent {
		t.Errorf("tcp: %v", err)
	}
	if err := dial(t, "udp", address, nil).Ping(t.Context()); !errors.Is(err, vrpc.ErrTransport) {
		t.Errorf("udp: %v", err)
	}
	if _, err := vrpc.Dial(t.Context(), "sctp", address, 1, 1, nil); err == nil {
		t.Error("a network that there is not")
	}
}
