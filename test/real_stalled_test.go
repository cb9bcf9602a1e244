package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// A server of active messages, rank 0, and a client, rank 1.
const (
	stalledServer = 0
	stalledRanks  = 2
	stalledTag    = 7
)

// stopped is how long a server is stopped.
const stopped = 4 * time.Second

var stalledWays = []killWay{
	{"ring", "ring", stalledRanks, 2*stopped + vipl.DefaultPeerTimeout, nil},
	{"ring, one host", "ring", 1, stopped / 4, nil}, // the kernel says that the server lives
	{"shm", "shm", 1, stopped / 4, nil},
}

// playStalled starts a server and a client.
func playStalled(t *testing.T, way killWay, doing string) (server, client *player) {
	t.Helper()
	l := newLab(t, lab.Config{N: way.hosts})
	var ranks []*player
	for first := 0; first < stalledRanks; first += way.hosts {
		ranks = append(ranks, play(t, l, "stalled", doingEnv+"="+doing, driverEnv+"="+way.driver,
			fmt.Sprintf("%s=%d", firstEnv, first), fmt.Sprintf("%s=%v", timeoutEnv, way.timeout))...)
	}
	return ranks[stalledServer], ranks[1-stalledServer]
}

// TestStoppedServer: a server that is stopped for less time than PeerTimeout, or on the client's
// host for longer, is not unreachable: no request comes back.
func TestStoppedServer(t *testing.T) {
	needLab(t)
	var servers, clients []*player
	for _, way := range stalledWays { // all first, so that they are stopped together
		server, client := playStalled(t, way, "Stopped")
		if line := client.line(t); line != "busy" {
			t.Fatalf("%s: the client says %q", way.name, line)
		}
		servers, clients = append(servers, server), append(clients, client)
	}
	for _, s := range servers {
		if err := s.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(stopped)
	for _, s := range servers {
		if err := s.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	for i, way := range stalledWays {
		t.Run(way.name, func(t *testing.T) {
			for _, p := range []*player{clients[i], servers[i]} {
				if err := p.Signal(unix.SIGUSR1); err != nil {
					t.Fatal(err)
				}
				p.end(t)
			}
		})
	}
}

// TestKilledClient: a server without a ReturnHandler counts a reply that comes back because its
// client was killed, and goes on.
func TestKilledClient(t *testing.T) {
	needLab(t)
	for _, way := range []killWay{{"ring", "ring", stalledRanks, silent, nil}, {"shm", "shm", 1, told, nil}} {
		t.Run(way.name, func(t *testing.T) {
			server, client := playStalled(t, way, "Killed")
			if line := server.line(t); line != "asked" {
				t.Fatalf("the server says %q", line)
			}
			if err := client.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-client.Done()
			if err := server.Signal(unix.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			server.end(t)
		})
	}
}

// stalledRole is a rank of these tests.
func stalledRole(ctx context.Context) error {
	goOn, stop := signal.NotifyContext(ctx, unix.SIGUSR1)
	defer stop()
	cfg := config()
	first, err := strconv.Atoi(os.Getenv(firstEnv))
	if err != nil {
		return err
	}
	patience, err := time.ParseDuration(os.Getenv(timeoutEnv))
	if err != nil {
		return err
	}
	nic, err := vipl.Open(ctx, killNIC(os.Getenv(driverEnv)))
	if err != nil {
		return err
	}
	defer nic.Close()
	node, err := endpoint.Open(ctx, &endpoint.Config{NIC: nic, PeerTimeout: patience})
	if err != nil {
		return err
	}
	defer node.Close()
	bundle, err := node.NewBundle(endpoint.Sequential)
	if err != nil {
		return err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(stalledTag)
	if cfg.Rank+first == stalledServer {
		return stalledServes(goOn, cfg.Job, node, bundle, ep, os.Getenv(doingEnv) == "Killed")
	}
	return stalledAsks(ctx, goOn, cfg.Job, node, bundle, ep)
}

// stalledServes answers requests until goOn ends. If the client is killed, the first answer waits
// for that, and goOn ends the wait.
func stalledServes(goOn context.Context, job string, node *endpoint.Node, bundle *endpoint.Bundle, ep *endpoint.Endpoint, killed bool) error {
	if err := ep.SetHandler(hKillAsk, func(t endpoint.Token, args []uint32, _ []byte) {
		if killed {
			fmt.Println("asked")
			<-goOn.Done()
		}
		t.Reply(hKillAnswer, args...)
	}); err != nil {
		return err
	}
	if err := ep.Publish(job); err != nil {
		return err
	}
	for goOn.Err() == nil {
		if _, err := bundle.WaitPoll(goOn); err != nil && goOn.Err() == nil {
			return err
		}
	}
	if !killed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(goOn), patience/2)
	defer cancel()
	for node.Stats().LostReplies == 0 {
		if _, err := bundle.WaitPoll(ctx); err != nil {
			return fmt.Errorf("waiting for the reply to come back: %w", err)
		}
	}
	return nil
}

// stalledAsks sends requests until goOn ends, and then until all are answered.
func stalledAsks(ctx, goOn context.Context, job string, node *endpoint.Node, bundle *endpoint.Bundle, ep *endpoint.Endpoint) error {
	asked, answered := 0, 0
	var back error
	ep.SetReturnHandler(func(r *endpoint.Returned) {
		back = errors.Join(back, fmt.Errorf("a request came back for %v: %w", r.Reason, r.Err))
	})
	if err := ep.SetHandler(hKillAnswer, func(endpoint.Token, []uint32, []byte) { answered++ }); err != nil {
		return err
	}
	name, err := node.Find(ctx, job)
	if err != nil {
		return err
	}
	if err := ep.Map(0, name, stalledTag); err != nil {
		return err
	}
	for said := false; back == nil && (goOn.Err() == nil || answered < asked); {
		if goOn.Err() == nil {
			if err := ep.Request(ctx, 0, hKillAsk); err != nil {
				return errors.Join(back, err)
			}
			asked++
		}
		if _, err := bundle.Poll(); err != nil {
			return errors.Join(back, err)
		}
		if !said && answered >= enough {
			said = true
			fmt.Println("busy")
		}
	}
	return back
}
