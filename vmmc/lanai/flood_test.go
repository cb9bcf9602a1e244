package lanai_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
	"golang.org/x/sys/unix"
)

// TestFlooded: programs on the same card and on another one send what they can to a program that does not run. It
// keeps its connection, and what others have imported from it. What the card does not take is counted.
func TestFlooded(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{Processes: 16, Card: myrinet.CardConfig{SRAM: 1 << 20}})
	served(t, veth, 1, false, lanai.Config{Processes: 16, Card: myrinet.CardConfig{SRAM: 1 << 20}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, victim := startChild(t, veth, 0, "exporter")
	open := func(side int, number uint32) (*lanai.Card, *vmmc.Process) {
		c := openVeth(t, veth, side, lanai.Config{})
		p, err := vmmc.Open(ctx, &vmmc.Config{Card: c, Process: number})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return c, p
	}
	imports := func(p *vmmc.Process) *vmmc.Import {
		i, err := p.Import(ctx, vmmc.Name{Process: 1, ID: 7})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	friends, friend := open(1, 2)
	board := imports(friend)
	near, other := openVeth(t, veth, 0, lanai.Config{}), openVeth(t, veth, 1, lanai.Config{})
	at := friends.PeerAddr(2)
	if err := victim.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for side := range 2 {
		for k, known := range []bool{false, true} {
			number := uint32(20 + 2*side + k)
			c, p := open(side, number)
			if known {
				if err := victim.Signal(unix.SIGCONT); err != nil {
					t.Fatal(err)
				}
				imports(p)
				if err := victim.Signal(unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				c.Notify(number, 200)
			}
			c.Flood(number, at, 3000, 1000)
			if _, err := p.AllocMem(1); err != nil { // when the card has read all that
				t.Fatal(err)
			}
		}
	}
	for n := 0; n < 20; n++ {
		if err := friend.SendMsgWithNotify(ctx, []byte{1}, board.Addr()); err != nil {
			t.Fatalf("a write to a program that does not run: %v", err)
		}
	}
	if err := writes(t, near, other, 30); err != nil {
		t.Error(err)
	}
	if err := victim.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 100; n++ { // more than there is room for before the program handles some
		if err := friend.SendMsgWithNotify(ctx, []byte{1}, board.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	for side := range 2 {
		_, p := open(side, 40+uint32(side))
		imports(p)
	}
	if s := card.Snapshot().Stats; s.Untold < 1000 {
		t.Errorf("%d messages were counted as dropped: %+v", s.Untold, s)
	}
}

// TestHog: a process that adds requests while the card works on those before does not keep the card from others.
func TestHog(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 1})
	for i := range 2 {
		n.host(i, lanai.Config{})
	}
	over := false
	n.process(1, 1, func(p *vmmc.Process) error {
		_, err := p.Export(make([]byte, 8192), 7, vmmc.Everybody, nil)
		for err == nil && !over {
			p.Poll()
			err = n.Sleep(time.Microsecond)
		}
		return err
	})
	n.process(0, 2, func(*vmmc.Process) error {
		for !over {
			if err := n.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	n.process(0, 3, func(p *vmmc.Process) error {
		defer func() { over = true }()
		to, err := p.Import(t.Context(), vmmc.Name{Process: 1, ID: 7})
		if err != nil {
			return err
		}
		left := n.hosts[0].Hog(2, 1_000_000)
		if err := p.SendMsg(t.Context(), make([]byte, 5000), to.Addr()); err != nil {
			return err
		}
		if left() == 0 {
			return errors.New("the write has waited for all requests of another process")
		}
		return nil
	})
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestWordsOfEnded: messages that programs of a user leave behind, which wait for a node that does not answer, are
// bounded. Programs of other users go on.
func TestWordsOfEnded(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, true, lanai.Config{MAC: mac(1), Routes: []myrinet.HostRoute{{To: mac(2)}}, PeerTimeout: time.Hour})
	for round := 0; ; round++ {
		c := openVeth(t, veth, 0, lanai.Config{})
		_, err := vmmc.Open(t.Context(), &vmmc.Config{Card: c, Process: 1})
		if errors.Is(err, vmmc.ErrNoRoom) {
			break
		}
		if err != nil || round > lanai.MostWords/16 {
			t.Fatalf("after %d programs: %v, want %v", round, err, vmmc.ErrNoRoom)
		}
		c.Ask(1, ethertype.Addr{MAC: mac(2), Port: 1}, 100)
		c.Close()
		if err := left(card); err != nil {
			t.Fatal(err)
		}
	}
	if n := card.Snapshot().ToSend; n > lanai.MostWords+100 {
		t.Errorf("%d messages wait", n)
	}
	if os.Geteuid() != 0 {
		return
	}
	alice, err := openAs(t, veth, 0, 4321)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: alice, Process: 1})
	if err != nil {
		t.Fatalf("a program of another user: %v", err)
	}
	p.Close()
}

// TestBroken: connections with processes that break the protocol, and do not answer to the end of it, count among
// those that a process may have.
func TestBroken(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{MAC: mac(1), Routes: []myrinet.HostRoute{{To: mac(2)}}, Processes: 8, Card: myrinet.CardConfig{SRAM: 1 << 20}})
	openVeth(t, veth, 1, lanai.Config{MAC: mac(2), Routes: []myrinet.HostRoute{{To: mac(1)}}}) // without, nothing leaves
	p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: card, Process: 1, MaxConnections: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for number := range uint32(4) {
		c := openVeth(t, veth, 0, lanai.Config{})
		if _, err := vmmc.Open(t.Context(), &vmmc.Config{Card: c, Process: 10 + number}); err != nil {
			t.Fatal(err)
		}
		c.Flood(10+number, card.Addr(1), 1, 1) // a question without an end
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := await(ctx, p, func() bool {
		n := p.Snapshot().Stats
		return n.Violations+n.Strangers >= 4
	}); err != nil {
		t.Fatal(err)
	}
	if n := p.Snapshot().Stats; n.Violations != 2 || n.Strangers != 2 {
		t.Errorf("%d processes have broken the protocol and %d were refused, want 2 and 2", n.Violations, n.Strangers)
	}
	const want = "4 connections, the limit of Config.MaxConnections (this process has ended 2 of them"
	for n := range uint32(3) {
		other, err := vmmc.Open(t.Context(), &vmmc.Config{Card: openVeth(t, veth, 0, lanai.Config{}), Process: 20 + n})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		mem, err := other.AllocMem(8)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Export(mem, 1, vmmc.Everybody, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Import(ctx, vmmc.Name{Process: 20 + n, ID: 1}); (err == nil) != (n < 2) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("import %d: %v, want %q for the third", n, err, want)
		}
	}
}
