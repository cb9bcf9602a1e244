package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestSnapshot: while a server does not poll, both sides show what is under
// way, how old it is, and what it waits for.
func TestSnapshot(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	done := false
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		s.ep.SetSegment(make([]byte, 1<<20))
		s.ep.SetHandler(1, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(2) })
		w.board["server"] = s.ep.Name()
		arrived := func() bool {
			asked := n.Snapshot().Bundles[0].Endpoints[0].Asked
			return len(asked) == 1 && asked[0].Waiting == 3 && asked[0].From == w.board["client"]
		}
		if err := takeIn(n, arrived); err != nil {
			return err
		}
		if b := n.Snapshot().Bundles[0]; b.Requests != 1 || b.Endpoints[0].Senders != 1 || b.Endpoints[0].Accepts != "all" || b.Endpoints[0].Segment != 1<<20 {
			t.Errorf("the server's bundle is %+v", b)
		}
		w.board["seen"] = s.ep.Name()
		w.find("answer")
		return s.serve(n, &done)
	})
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		return snapshotClient(t, w, n)
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// takeIn waits for a bundle without endpoints, which takes in what arrives and
// handles nothing, until enough.
func takeIn(n *endpoint.Node, enough func() bool) error {
	b, err := n.NewBundle(endpoint.Parallel)
	if err != nil {
		return err
	}
	defer b.Free()
	for !enough() {
		ctx, cancel := n.NIC().WithTimeout(bg, 100*time.Microsecond)
		_, err := b.WaitPoll(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil
}

func snapshotClient(t *testing.T, w *world, n *endpoint.Node) error {
	c, err := newParty(n)
	if err != nil {
		return err
	}
	replies := 0
	c.ep.SetHandler(2, func(endpoint.Token, []uint32, []byte) {
		if replies++; replies == 1 {
			s := n.Snapshot().Bundles[0]
			if x := s.Endpoints[0].Translations[0]; x.Waits != "for its handler here, which is running" || s.Running != 1 {
				t.Errorf("in the handler of the first answer: %+v", s)
			}
		}
	})
	server := w.find("server")
	w.board["client"] = c.ep.Name()
	c.ep.Map(5, server, 7)
	now := func() endpoint.TranslationSnapshot { return n.Snapshot().Bundles[0].Endpoints[0].Translations[0] }
	check := func(when string, want endpoint.TranslationSnapshot) {
		t.Helper()
		want.To = server
		if got := now(); got.Age < want.Age || got.Age > want.Age+100*time.Millisecond {
			t.Errorf("%s: the oldest is %v old, want %v", when, got.Age, want.Age)
		} else if got.Age = want.Age; got != want {
			t.Errorf("%s:\n%+v, want\n%+v", when, got, want)
		}
	}
	check("before the first request", endpoint.TranslationSnapshot{Index: 5, Credits: 4})
	for range 3 {
		if err := c.ep.Request(bg, 5, 1); err != nil {
			return err
		}
	}
	if err := takeIn(n, func() bool { _, ok := w.board["seen"]; return ok }); err != nil {
		return err
	}
	w.Sleep(time.Second)
	check("unanswered", endpoint.TranslationSnapshot{Index: 5, UnderWay: 3, Credits: 1, Oldest: "request", Age: time.Second, Waits: "for an answer"})
	if err := c.ep.RequestBulkAsync(5, 1, make([]byte, 1<<16), 0); err != nil {
		return err
	}
	check("and a bulk one", endpoint.TranslationSnapshot{Index: 5, UnderWay: 4, Oldest: "request", Age: time.Second, Waits: "for an answer"})
	w.board["answer"] = server
	if err := takeIn(n, func() bool { return now().Answers >= 3 }); err != nil {
		return err
	}
	if got := now(); got.Waits != "for this program to poll" {
		t.Errorf("with answers not taken: %+v", got)
	}
	c.ep.Unmap(5)
	if got := now(); got.Index != -1 || got.UnderWay != 4 {
		t.Errorf("unmapped: %+v", got)
	}
	if err := c.until(n, "the answers", func() bool { return replies == 4 }); err != nil {
		return err
	}
	if s := n.Snapshot().Bundles[0].Endpoints[0]; len(s.Translations) != 0 || s.Mapped != 0 {
		t.Errorf("at the end: %+v", s)
	}
	return nil
}

// TestSnapshotOfDead: what a dead peer owes is to come back, and says why.
func TestSnapshotOfDead(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	w.node("client", endpoint.Config{PeerTimeout: time.Second}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		nobody := endpoint.Name{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 9, 9, 9, 9, 9}, Port: 1024}, ID: 1, Incarnation: 1}
		c.ep.Map(0, nobody, 7)
		if err := c.ep.Request(bg, 0, 1); err != nil {
			return err
		}
		lost := func() bool {
			all := n.Snapshot().Bundles[0].Endpoints[0].Translations
			return len(all) == 2 && all[0].UnderWay == 0 && all[1].Err != "" // index 0 is free for a new connection
		}
		if err := takeIn(n, lost); err != nil {
			return err
		}
		var b strings.Builder
		n.Snapshot().WriteTo(&b)
		if !strings.Contains(b.String(), "to come back at the next poll: unreachable: vipl: ") {
			t.Errorf("the dump says\n%s", &b)
		}
		return c.until(n, "the return", func() bool { return len(c.returned) == 1 })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotText: the text is as documented, and says nothing of what is not.
func TestSnapshotText(t *testing.T) {
	name := endpoint.Name{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Port: 1025}, ID: 3, Incarnation: 0xab}
	s := endpoint.Snapshot{Addr: name.Addr, Incarnation: 0xcd, Leading: true, Following: 2, Stats: endpoint.Stats{Sent: 9, Stalls: 4},
		Bundles: []endpoint.BundleSnapshot{
			{Type: "sequential", Events: "not empty", Posted: true, Requests: 1, Endpoints: []endpoint.EndpointSnapshot{
				{ID: 1, Accepts: "all", Published: []string{"kv"}, Segment: 4096, Mapped: 2, Table: 256, Senders: 1,
					Translations: []endpoint.TranslationSnapshot{
						{Index: 0, To: name, UnderWay: 3, Credits: 1, Oldest: "get", Age: 1234567 * time.Microsecond, Waits: "for an answer"},
						{Index: -1, To: name, Credits: 4}},
					Asked: []endpoint.SenderSnapshot{{From: name, Waiting: 2, Incoming: 1, Deferred: 3}}}}},
			{Type: "parallel", Events: "none"}}}
	s.Stats.Refused[endpoint.ReasonBadTag] = 5
	for _, tt := range []struct {
		s    endpoint.Snapshot
		want string
	}{
		{s, `node 02:00:00:00:00:01/1025  incarnation 000000cd  waits for the network, 2 more goroutines with it
  requests sent 9, looks for a credit in vain 4, refused for bad tag 5

  BUNDLE  TYPE        EVENTS             RUNNING  REQUESTS  REPLIES  ENDPOINT  ACCEPTS  SEGMENT  GRANTS  MAPPED    SENDERS  PUBLISHED
  0       sequential  not empty, posted  0        1         0        1         all      4096 B   0       2 of 256  1        kv
  1       parallel    none               0        0         0        none

  FROM  INDEX     TO                                      UNDER WAY  CREDITS  ANSWERS  OLDEST  AGE    WAITS
  1     0         02:00:00:00:00:01/1025#3.000000ab       3          1        0        get     1.23s  for an answer
  1     unmapped  02:00:00:00:00:01/1025#3.000000ab       0          4        0        -       -      -

  AT  SENDER                             WAITING  INCOMING  OUTGOING  DEFERRED
  1   02:00:00:00:00:01/1025#3.000000ab  2        1         0         3
`},
		{endpoint.Snapshot{Addr: name.Addr, Closed: true}, "node 02:00:00:00:00:01/1025  incarnation 00000000  closed\n  nothing sent or handled\n"},
	} {
		var b strings.Builder
		if n, err := tt.s.WriteTo(&b); err != nil || n != int64(b.Len()) || squeeze(b.String()) != squeeze(tt.want) {
			t.Errorf("%d, %v:\n%s\nwant\n%s", n, err, &b, tt.want)
		}
	}
}

// squeeze makes columns of any width alike.
func squeeze(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintln(&b, strings.Join(strings.Fields(line), " "))
	}
	return b.String()
}
