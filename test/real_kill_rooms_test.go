package test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	endpoints "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vmmc"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// messageWays are what four nodes do that send each other active messages of all kinds when one of
// them is killed: its program answers, or has not polled for a while. Each message to it that was
// not answered comes back to its sender, once and as it was, and those between the others go on.
var messageWays = []killWay{
	{"ring", "ring", killRanks, silent, []string{"Awake", "Asleep"}},
	{"udp", "udp", killRanks, silent, []string{"Awake", "Asleep"}},
	{"shm", "shm", 1, told, []string{"Awake", "Asleep"}},
}

// The handlers, and how many messages each other rank has answered when one is in
// the middle of it.
const (
	hKillAsk = 1 + iota
	hKillAnswer
	hKillSleep
	enough = 50
)

// parcel is what the longer messages carry: the longest one goes by RDMA.
var parcel = bytes.Repeat([]byte("parcel "), 1500)

// asked is a message that a correspondent has sent.
type asked struct {
	dest int
	op   endpoint.Op
	ends int // answers and returns
}

// correspondent is the endpoint of a rank. The one of rank i is at index i of its
// translations.
type correspondent struct {
	ep      *endpoint.Endpoint
	bundle  *endpoint.Bundle
	rank    int
	asked   []asked // by the number that is a message's argument
	under   [killRanks]int
	answers [killRanks]int
	asleep  bool // the rank that will be killed says so
	dead    bool // something for it has come back
	err     error
}

// killMessages is a node of active messages.
func killMessages(ctx, goOn context.Context, cfg *mplite.Config, doing string, ready func()) error {
	node, err := endpoint.Open(ctx, &endpoint.Config{NIC: cfg.NIC, PeerTimeout: cfg.PeerTimeout})
	if err != nil {
		return err
	}
	defer node.Close()
	c := &correspondent{rank: cfg.Rank}
	if err := c.join(ctx, node, cfg.Job); err != nil {
		return err
	}
	if err := c.correspond(ctx, doing == "Asleep", ready); err != nil {
		return err
	}
	fmt.Printf("rank %d failed\n", killed)
	for err == nil { // the others may have something to ask
		_, err = c.bundle.WaitPoll(goOn)
	}
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return c.settled()
}

// join makes the endpoint and maps the others.
func (c *correspondent) join(ctx context.Context, node *endpoint.Node, job string) (err error) {
	if c.bundle, err = node.NewBundle(endpoint.Sequential); err != nil {
		return err
	}
	if c.ep, err = c.bundle.NewEndpoint(); err != nil {
		return err
	}
	const tag = 7
	c.ep.SetTag(tag)
	c.ep.SetReturnHandler(c.returned)
	answer := func(t endpoint.Token, args []uint32, _ []byte) {
		if err := t.Reply(hKillAnswer, args...); err != nil {
			c.err = err
		}
	}
	if err := errors.Join(
		c.ep.SetSegment(slices.Clone(parcel)),
		c.ep.SetHandler(hKillAsk, answer),
		c.ep.SetHandler(hKillAnswer, func(_ endpoint.Token, args []uint32, _ []byte) { c.answers[c.ended(args[0]).dest]++ }),
		c.ep.SetHandler(hKillSleep, func(t endpoint.Token, args []uint32, data []byte) {
			c.asleep = true
			answer(t, args, data)
		}),
	); err != nil {
		return err
	}
	word := func(rank int) string { return fmt.Sprintf("%s/%d", job, rank) }
	if err := c.ep.Publish(word(c.rank)); err != nil {
		return err
	}
	for rank := range killRanks {
		if rank == c.rank {
			continue
		}
		name, err := node.Find(ctx, word(rank))
		if err != nil {
			return err
		}
		if err := c.ep.Map(rank, name, tag); err != nil {
			return err
		}
	}
	return nil
}

// correspond sends messages until one has come back, and then until the others
// have answered as many again, and nothing is under way.
func (c *correspondent) correspond(ctx context.Context, asleep bool, ready func()) error {
	said := false
	for !c.dead || !c.busy() {
		for rank := range killRanks {
			if rank == c.rank || rank == killed && c.dead || c.under[rank] == endpoint.DefaultCredits.Short {
				continue
			}
			if err := c.ask(ctx, rank); err != nil {
				return err
			}
		}
		if err := c.poll(ctx); err != nil {
			return err
		}
		switch full := c.under[killed] == endpoint.DefaultCredits.Short; {
		case said || !c.busy():
		case asleep && c.rank == killed:
			return c.sleep(ctx, ready)
		case !asleep || c.asleep && full:
			said = true
			ready()
		}
	}
	for c.under != [killRanks]int{} {
		if err := c.poll(ctx); err != nil {
			return err
		}
	}
	return c.settled()
}

func (c *correspondent) poll(ctx context.Context) error {
	if _, err := c.bundle.WaitPoll(ctx); err != nil {
		return fmt.Errorf("%d messages under way to each rank, %d answered: %w", c.under, c.answers, err)
	}
	return c.err
}

// busy reports whether every other rank that answers has answered enough.
func (c *correspondent) busy() bool {
	for rank, n := range c.answers {
		if n < enough && rank != c.rank && !(rank == killed && (c.asleep || c.dead)) {
			return false
		}
	}
	return true
}

// sleep says so to all, and polls no more.
func (c *correspondent) sleep(ctx context.Context, ready func()) error {
	for rank := range killRanks {
		if rank == c.rank {
			continue
		}
		if err := c.send(rank, endpoint.OpRequest, func(id uint32) error { return c.ep.Request(ctx, rank, hKillSleep, id) }); err != nil {
			return err
		}
	}
	for c.under != [killRanks]int{} {
		if err := c.poll(ctx); err != nil {
			return err
		}
	}
	ready()
	<-ctx.Done()
	return ctx.Err()
}

// ask sends the next message, the kinds of which take turns.
func (c *correspondent) ask(ctx context.Context, dest int) error {
	switch medium := parcel[:1000]; len(c.asked) % 4 {
	case 0:
		return c.send(dest, endpoint.OpRequest, func(id uint32) error { return c.ep.Request(ctx, dest, hKillAsk, id) })
	case 1:
		return c.send(dest, endpoint.OpRequestMedium, func(id uint32) error { return c.ep.RequestMedium(ctx, dest, hKillAsk, medium, id) })
	case 2:
		return c.send(dest, endpoint.OpRequestBulk, func(id uint32) error {
			err := c.ep.RequestBulkAsync(dest, hKillAsk, parcel, 0, id)
			if errors.Is(err, endpoint.ErrInUse) { // an answer has come whose sender does not know that
				c.asked[id].op = endpoint.OpRequest
				err = c.ep.Request(ctx, dest, hKillAsk, id)
			}
			return err
		})
	}
	return c.send(dest, endpoint.OpGet, func(id uint32) error { return c.ep.Get(ctx, dest, hKillAnswer, 0, 0, len(parcel), id) })
}

func (c *correspondent) send(dest int, op endpoint.Op, send func(id uint32) error) error {
	id := len(c.asked)
	c.asked = append(c.asked, asked{dest: dest, op: op})
	c.under[dest]++
	return send(uint32(id))
}

// ended notes the end of a message and returns it.
func (c *correspondent) ended(id uint32) *asked {
	if int(id) >= len(c.asked) {
		c.err = fmt.Errorf("message %d of %d has ended", id, len(c.asked))
		return new(asked)
	}
	a := &c.asked[id]
	if a.ends++; a.ends > 1 {
		c.err = fmt.Errorf("%v %d to rank %d has ended %d times", a.op, id, a.dest, a.ends)
	}
	c.under[a.dest]--
	return a
}

// returned takes what comes back: messages to the dead, as they were, and the
// answers to it, which nobody waits for.
func (c *correspondent) returned(r *endpoint.Returned) {
	if r.Op >= endpoint.OpReply && r.Op <= endpoint.OpReplyBulk {
		return
	}
	a := c.ended(r.Args[0])
	if !c.dead {
		c.dead, c.answers = true, [killRanks]int{}
	}
	intact := r.Op == a.op && len(r.Args) == 1
	switch r.Op {
	case endpoint.OpRequestMedium:
		intact = intact && bytes.Equal(r.Data, parcel[:1000])
	case endpoint.OpRequestBulk:
		intact = intact && r.Length == len(parcel) && (r.Data == nil || bytes.Equal(r.Data, parcel))
	case endpoint.OpGet:
		intact = intact && r.Length == len(parcel)
	}
	if a.dest != killed || r.Dest != killed || r.Reason != endpoint.ReasonUnreachable || !intact {
		c.err = fmt.Errorf("%v to %d, a message %v to rank %d, came back for: %v (%v)", r.Op, r.Dest, a.op, a.dest, r.Reason, r.Err)
	}
}

// settled wants that every message has ended once.
func (c *correspondent) settled() error {
	for id, a := range c.asked {
		if a.ends != 1 {
			return fmt.Errorf("%v %d to rank %d has ended %d times", a.op, id, a.dest, a.ends)
		}
	}
	return c.err
}

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
	f, err := topology.ParseFile(cardsFabric)
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
	kill(t, hub)
	hub = l.startSwitch(0)
	both(saysAnswer, 20)
	t.Log("a client")
	kill(t, first.Proc)
	hears(t, second, saysAnswer, 50)
	first = start(1)
	hears(t, first, saysAnswer, 20)
	t.Log("the host that serves and maps")
	kill(t, server.Proc)
	both(saysBack, 1)
	server = start(0)
	both(saysAnswer, 20)
	for _, p := range []*lab.Proc{server.Proc, first.Proc, hub} {
		kill(t, p)
	}
	if second.quit(); !strings.Contains(second.stderr.String(), "\ncard ") {
		t.Errorf("a client says of its card: %s", &second.stderr)
	}
	noSockets(t, l.Lab)
}

// The program of the server that is killed.
const (
	killedProgram = 0x20000b0d
	killedDoor    = 100

	procHang = 1 // does not return as long as the client is there
	procEcho = 2
)

// killedPeerTimeout is how long a process that does not answer is believed to be alive.
const killedPeerTimeout = 2 * time.Second

// killedProcess opens a process of VMMC.
func killedProcess(number uint32) (*vmmc.Process, error) {
	return vmmc.Open(context.Background(), &vmmc.Config{Interface: lab.Interface, Process: number, PeerTimeout: killedPeerTimeout, Logger: slog.New(slog.DiscardHandler)})
}

// killedServerRole answers calls. It prints a line when it does, one for each call that hangs, and
// one when the client of such a call has gone.
func killedServerRole(ctx context.Context) error {
	p, err := killedProcess(1)
	if err != nil {
		return err
	}
	defer p.Close()
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	err = s.Register(&vrpc.Program{Number: killedProgram, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(procHang, "HANG", func(c *vrpc.Call, _, _ *xdr.Void) error {
			fmt.Println("hangs")
			<-c.Context().Done()
			fmt.Println("gone")
			return c.Context().Err()
		}),
		vrpc.Proc(procEcho, "ECHO", func(_ *vrpc.Call, arg, res *opaque) error {
			*res = *arg
			return nil
		}),
	}})
	if err == nil {
		_, err = s.ListenVMMC(p, killedDoor, vmmc.Everybody)
	}
	if err != nil {
		return err
	}
	fmt.Println("serves")
	bufio.NewScanner(os.Stdin).Scan() // until it is let go
	return nil
}

type opaque struct{ data []byte }

func (o *opaque) MarshalXDR(e *xdr.Encoder)   { e.Opaque(o.data, xdr.Unbounded) }
func (o *opaque) UnmarshalXDR(d *xdr.Decoder) { o.data = d.Opaque(o.data, xdr.Unbounded) }

// killedClientRole does what the lines of its standard input say, and prints a line for each.
func killedClientRole(ctx context.Context) error {
	p, err := killedProcess(2)
	if err != nil {
		return err
	}
	defer p.Close()
	c, err := vrpc.DialVMMC(ctx, p, vmmc.Name{Process: 1, ID: killedDoor}, killedProgram, 1, &vrpc.ClientConfig{Timeout: -1})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("dialled")
	hanging := make(chan error, 1)
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		said, err := killedClientLine(ctx, c, s.Text(), hanging)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Text(), err)
		}
		fmt.Println(said)
	}
	return nil
}

func killedClientLine(ctx context.Context, c *vrpc.Client, line string, hanging chan error) (said string, err error) {
	switch line {
	case "hang":
		go func() { hanging <- c.Call(ctx, procHang, xdr.Void{}, &xdr.Void{}) }()
		return "calls", nil
	case "lost": // the call under way ends by the server's end, and may have run
		var broken *vrpc.TransportError
		if err := <-hanging; !errors.As(err, &broken) || !broken.Sent || !errors.Is(err, vmmc.ErrPeer) {
			return "", fmt.Errorf("the call has ended with %w", err)
		}
		return "lost", nil
	case "echo": // the next call reaches whoever is the server now
		data, back := opaque{[]byte(strings.Repeat("x", 300_000))}, opaque{}
		for {
			err := c.Call(ctx, procEcho, &data, &back)
			var broken *vrpc.TransportError
			switch {
			case err == nil && string(back.data) == string(data.data):
				return "echoed", nil
			case err == nil:
				return "", errors.New("the reply is another one")
			case !errors.As(err, &broken): // one that was sent to the server that has ended is lost
				return "", err
			}
		}
	}
	return "", errors.New("no such line")
}

// TestVRPCKilled: kill -9 of the server in the midst of a call ends it at the client with a typed
// error, and kill -9 of the client is noticed by the procedure; either comes back and is
// reached, and nothing is left behind.
func TestVRPCKilled(t *testing.T) {
	l := newVMMCLab(t)
	server := l.start(0, "rpc-server", "serves")
	client := l.start(1, "rpc-client", "dialled")
	client.do("hang", "calls")
	server.expect("hangs")

	kill(t, server.Proc)
	client.do("lost", "lost")
	server = l.start(0, "rpc-server", "serves")
	client.do("echo", "echoed")

	client.do("hang", "calls")
	server.expect("hangs")
	kill(t, client.Proc)
	server.expect("gone")
	client = l.start(1, "rpc-client", "dialled")
	client.do("echo", "echoed")
	client.leave()
	server.leave()
	noSockets(t, l.Lab)
}
