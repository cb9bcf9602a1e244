package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"golang.org/x/sys/unix"
)

// What the nodes of TestKilledNode do when one of them is killed: its program
// answers, or has not polled for a while.
var messageWays = []killWay{
	{"ring", "ring", killRanks, silent, []string{"Awake", "Asleep"}},
	{"udp", "udp", killRanks, silent, []string{"Awake", "Asleep"}},
	{"shm", "shm", 1, told, []string{"Awake", "Asleep"}},
}

// TestKilledNode: after kill -9 of one of four nodes that send each other active
// messages of all kinds, each message to it that was not answered comes back to
// its sender, once and as it was, and those between the others go on.
func TestKilledNode(t *testing.T) { killEach(t, "messages", messageWays) }

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

// messagesRole is a rank of TestKilledNode.
func messagesRole(ctx context.Context) error {
	goOn, stop := signal.NotifyContext(ctx, unix.SIGUSR1)
	defer stop()
	cfg, err := killConfig()
	if err != nil {
		return err
	}
	defer cfg.NIC.Close()
	node, err := endpoint.Open(ctx, &endpoint.Config{NIC: cfg.NIC, PeerTimeout: cfg.PeerTimeout})
	if err != nil {
		return err
	}
	defer node.Close()
	c := &correspondent{rank: cfg.Rank}
	if err := c.join(ctx, node, cfg.Job); err != nil {
		return err
	}
	if err := c.correspond(ctx, func() { sayReady(cfg.NIC) }); err != nil {
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
func (c *correspondent) correspond(ctx context.Context, ready func()) error {
	said, asleep := false, os.Getenv(doingEnv) == "Asleep"
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
