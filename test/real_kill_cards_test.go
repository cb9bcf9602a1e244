package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"

	endpoints "github.com/bobnet-go/bobnet/endpoint/lanai"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
)

// The address of the host a, which serves, is the lowest, so that it maps for all until it is
// killed.
const cardsFabric = `host a b c
switch s
link a s:0
link b s:1
link c s:2
`

// askPace is how often the roles of TestCardProgramKilled ask.
const askPace = 5 * time.Millisecond

// What they say.
const (
	saysAnswer = "answer"   // of the server, or the write has arrived
	saysBack   = "returned" // the message, or an error for the write
)

// askingRole is a client of one host's endpoint, or that server, which has rank 0, on cards:
// it finds the server, again after each message that comes back, and asks.
func askingRole(ctx context.Context) error {
	card, err := endpoints.Open(ctx, &endpoints.Config{Interface: config().Interface})
	if err != nil {
		return err
	}
	defer card.Close()
	node, err := endpoint.Open(ctx, &endpoint.Config{Card: card})
	if err != nil {
		return err
	}
	defer node.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchEndpointCard(card)
	collector.WatchNode(node)
	defer collector.DumpOnQuit(os.Stderr)() // what it waits for, if it hangs
	bundle, err := node.NewBundle(endpoint.Sequential)
	if err != nil {
		return err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(endpoint.TagAll)
	if config().Rank > 0 {
		return askAgain(ctx, node, bundle, ep)
	}
	ep.SetHandler(hMetricsAsk, func(t endpoint.Token, args []uint32, data []byte) { t.ReplyMedium(hMetricsAnswer, data, args...) })
	ep.SetReturnHandler(func(*endpoint.Returned) {}) // an answer that was under way to a client that was killed
	if err := ep.Publish(serverName); err != nil {
		return err
	}
	for {
		if _, err := bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
}

// askAgain asks, with a message that lies in its entry and one that does not in turn.
func askAgain(ctx context.Context, node *endpoint.Node, bundle *endpoint.Bundle, ep *endpoint.Endpoint) error {
	pace := time.NewTicker(askPace)
	defer pace.Stop()
	ended := map[uint32]int{}
	var back bool
	var twice error
	ends := func(n uint32) {
		if ended[n]++; ended[n] > 1 {
			twice = fmt.Errorf("message %d has ended %d times", n, ended[n])
		}
	}
	ep.SetHandler(hMetricsAnswer, func(_ endpoint.Token, args []uint32, _ []byte) { ends(args[0]) })
	ep.SetReturnHandler(func(r *endpoint.Returned) {
		ends(r.Args[0])
		back = true
	})
	for n, known := uint32(0), false; ctx.Err() == nil; n++ {
		<-pace.C
		if !known {
			name, err := node.Find(ctx, serverName)
			if err != nil {
				continue // the server is not there
			}
			if err := ep.Map(0, name, endpoint.TagAll); err != nil {
				return err
			}
			known = true
		}
		back = false
		if err := ep.RequestMedium(ctx, 0, hMetricsAsk, parcel[:int(n%2)*3000], n); err != nil {
			return err
		}
		for ended[n] == 0 {
			if _, err := bundle.WaitPoll(ctx); err != nil {
				return err
			}
		}
		if twice != nil {
			return twice
		}
		if back {
			if err := ep.Unmap(0); err != nil {
				return err
			}
			known = false
			fmt.Println(saysBack)
			continue
		}
		fmt.Println(saysAnswer)
	}
	return ctx.Err()
}

// writingRole writes to the memory of rank 0, or has it, on cards: it imports the memory, again
// after each write that fails.
func writingRole(ctx context.Context) error {
	cfg := config()
	host, err := vmmccard.Open(ctx, &vmmccard.Config{Interface: cfg.Interface, PeerTimeout: patience / 15})
	if err != nil {
		return err
	}
	defer host.Close()
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: host, Process: uint32(cfg.Rank)})
	if err != nil {
		return err
	}
	defer p.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchVMMCCard(host)
	collector.WatchProcess(p)
	defer collector.DumpOnQuit(os.Stderr)() // what it waits for, if it hangs
	if cfg.Rank == 0 {
		if _, err := p.Export(make([]byte, 1<<16), 7, vmmc.Everybody, nil); err != nil {
			return err
		}
		return p.Await(ctx, func() bool { return false })
	}
	pace := time.NewTicker(askPace)
	defer pace.Stop()
	var to *vmmc.Import
	for n := 0; ctx.Err() == nil; n++ {
		<-pace.C
		if to == nil {
			asked, cancel := context.WithTimeout(ctx, patience/20) // a question to a host that has gone may have no answer
			to, err = p.Import(asked, vmmc.Name{ID: 7})
			if cancel(); err != nil {
				to = nil
				continue // it is not there
			}
		}
		if err := p.SendMsg(ctx, parcel[:64+n%2*9000], to.Addr()); err != nil {
			if ctx.Err() != nil {
				return err
			}
			to.Unimport(ctx) // what is lost has nothing to give back
			to = nil
			fmt.Println(saysBack)
			continue
		}
		fmt.Println(saysAnswer)
	}
	return ctx.Err()
}

// hears waits until p has said something so many times, from now on if it says it all the time.
func hears(t *testing.T, p *player, what string, n int) {
	t.Helper()
	if what == saysAnswer {
		p.lines.skip()
	}
	for end := time.Now().Add(2 * patience); n > 0; {
		if p.line(t) == what {
			n--
		} else if time.Now().After(end) {
			t.Fatalf("rank %d does not say %q: %s", p.Rank(), what, &p.stderr)
		}
	}
}

// TestCardProgramKilled: kill -9 of a switch, of a client, and of the host that serves and
// maps, each of which has its card, under the control programs of AM-II and of VMMC. What goes
// through what was killed goes on when it is there again, or comes back; the others go on;
// nothing is left.
func TestCardProgramKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: deaths are believed after seconds")
	}
	for _, role := range []string{"asking", "writing"} {
		t.Run(role, func(t *testing.T) { killCards(t, role) })
	}
}

// killCards lets three hosts play a role while what belongs to them is killed.
func killCards(t *testing.T, role string) {
	f, err := myrinet.ParseFile(cardsFabric)
	if err != nil {
		t.Fatal(err)
	}
	l := &fabricLab{Lab: newLab(t, lab.Config{Fabric: f, MTU: 9000}), t: t, f: f, program: filepath.Join(commands(t), "bobnet")}
	start := func(rank int) *player {
		return playOne(t, l.Lab, rank, &exec.Cmd{Args: []string{role}}, roleEnv+"="+role)
	}
	hub := l.startSwitch(0)
	server, first, second := start(0), start(1), start(2)
	both := func(what string, n int) {
		t.Helper()
		hears(t, first, what, n)
		hears(t, second, what, n)
	}
	both(saysAnswer, 20)
	t.Log("the switch")
	kill9(t, hub)
	hub = l.startSwitch(0)
	both(saysAnswer, 20)
	t.Log("a client")
	kill9(t, first.Proc)
	hears(t, second, saysAnswer, 50)
	first = start(1)
	hears(t, first, saysAnswer, 20)
	t.Log("the host that serves and maps")
	kill9(t, server.Proc)
	both(saysBack, 1)
	server = start(0)
	both(saysAnswer, 20)
	for _, p := range []*lab.Proc{server.Proc, first.Proc, hub} {
		kill9(t, p)
	}
	if second.quit(); !strings.Contains(second.stderr.String(), "\ncard ") {
		t.Errorf("a client says of its card: %s", &second.stderr)
	}
	l.clean()
}
