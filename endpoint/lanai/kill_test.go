package lanai_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// childEnv has this test program be a process of its own: "card" serves a card, "server" echoes, and "client"
// asks the server as often as it can while it is told to.
const childEnv = "BOBNET_LANAI_CHILD"

func init() {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(what); err != nil {
			fmt.Fprintln(os.Stderr, what+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// child is the main of such a process. It prints a line when it is ready.
func child(what string) error {
	ctx := context.Background()
	c, err := lanai.Open(ctx, &lanai.Config{Interface: vethtest.Name, Routes: []myrinet.HostRoute{{To: ethertype.Broadcast}}})
	if err != nil {
		return err
	}
	if what == "card" {
		serve, err := lanai.Desk(c, false)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		return serve(ctx)
	}
	p, err := newParty(c, endpoint.Config{})
	if err != nil {
		return err
	}
	if what == "client" {
		return p.flood(ctx)
	}
	if err := p.ep.Publish("child"); err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		if _, err := p.b.WaitPoll(ctx); err != nil {
			return err
		}
	}
}

// start starts a child at a side of a cable, and returns what kills it.
func start(t testing.TB, veth *vethtest.Pair, side int, what string) (kill func()) {
	t.Helper()
	return startChild(t, veth, side, what).kill
}

// process is a child.
type process struct {
	*os.Process
	in   io.Writer
	out  *bufio.Reader
	kill func()
}

func startChild(t testing.TB, veth *vethtest.Pair, side int, what string) (p process) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = veth.In(side, cmd.Start)
	}
	if err != nil {
		t.Fatal(err)
	}
	p = process{Process: cmd.Process, in: in, out: bufio.NewReader(out), kill: func() {
		cmd.Process.Kill()
		cmd.Wait()
	}}
	t.Cleanup(p.kill)
	if _, err := p.out.ReadString('\n'); err != nil {
		t.Fatalf("%s does not start: %v", what, err)
	}
	return p
}

// find opens a party on a card that has mapped the child's endpoint.
func find(t testing.TB, c *lanai.Card) *party {
	t.Helper()
	p, err := newParty(c, endpoint.Config{PeerTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name, err := p.n.Find(ctx, "child")
	if err == nil {
		err = p.ep.Map(0, name, tag)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// press has a party send requests, and calls then when so many have been answered, until one comes back.
func (p *party) press(answers int, then func()) error {
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for sent := 0; len(p.returned) == 0; sent++ {
		if sent == answers {
			then()
		}
		err := p.ep.Request(ctx, 0, hEcho, uint32(sent))
		if err == nil && sent < answers {
			err = p.until("an answer", func() bool { return len(p.got) > sent })
		}
		if err == nil {
			_, err = p.b.Poll()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answered reports whether a request is answered; else it comes back.
func (p *party) answered(t *testing.T) bool {
	t.Helper()
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p.got, p.returned = nil, nil
	err := p.ep.Request(ctx, 0, hEcho, 1)
	if err == nil {
		err = p.until("an answer", func() bool { return len(p.got)+len(p.returned) > 0 })
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(p.got) > 0
}

// TestKilledPrograms: a program that is killed at any stage leaves nothing on the card. What is on its
// way to it comes back, others go on, and the next one takes its place.
func TestKilledPrograms(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false)
	local, far := openVeth(t, veth, 0), openVeth(t, veth, 1)
	rng := rand.New(rand.NewPCG(41, 1))
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		kill := start(t, veth, 0, "server")
		p := find(t, []*lanai.Card{local, far}[round%2])
		if err := p.press(rng.IntN(40), kill); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		talks(t, local, far, 1)
		p.n.Close()
		empty(t, card)
	}
}

// TestKilledCard: programs whose card is killed hear of it, and open the next one. Their peers get
// what they have sent back.
func TestKilledCard(t *testing.T) {
	veth := vethtest.New(t, 1500)
	far := openVethWith(t, veth, 1, lanai.Config{Channels: channels.Config{Tries: 20}}) // gives up after 1.3 s, not 17 s
	rounds := 2
	if need.Full() {
		rounds = 10
	}
	for round := range rounds {
		kill := start(t, veth, 0, "card")
		c, other := openVeth(t, veth, 0), openVeth(t, veth, 0)
		talks(t, c, other, 1)
		server, err := newParty(c, endpoint.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.ep.Publish("child"); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := server.b.WaitPoll(context.Background()); err != nil {
					ended <- err
					return
				}
			}
		}()
		p := find(t, far)
		for !p.answered(t) { // by a channel that knew the card before
			p.n.Close()
			p = find(t, far)
		}
		kill()
		if p.answered(t) {
			t.Errorf("round %d: the card answers and is killed", round)
		}
		if err := <-ended; !errors.Is(err, transport.ErrGone) || !errors.Is(err, endpoint.ErrClosed) {
			t.Errorf("round %d: the program hears %v", round, err)
		}
		if _, err := newParty(c, endpoint.Config{}); !errors.Is(err, transport.ErrGone) {
			t.Errorf("round %d: a new program hears %v", round, err)
		}
		server.n.Close()
		p.n.Close()
		c.Close()
		other.Close()
	}
}
