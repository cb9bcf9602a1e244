package lanai_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/internal/providertest"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// openVeth opens a card at a side of a cable.
func openVeth(t *testing.T, veth *vethtest.Pair, side int, cfg lanai.Config) (c *lanai.Card) {
	t.Helper()
	err := veth.In(side, func() (err error) {
		cfg.Interface = vethtest.Name
		c, err = lanai.Open(t.Context(), &cfg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// served has a card at one side of a cable that programs of other processes can use. stop ends it, as a
// kill does: at once.
func served(t *testing.T, veth *vethtest.Pair, side int, anyUser bool, cfg lanai.Config) (c *lanai.Card, stop func()) {
	t.Helper()
	c = openVeth(t, veth, side, cfg)
	var serve func(ctx context.Context) error
	if err := veth.In(side, func() (err error) {
		serve, err = lanai.Desk(c, anyUser)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	stop = func() {
		cancel()
		if err, ok := <-done; ok {
			if close(done); err != nil {
				t.Error(err)
			}
		}
		c.Close()
	}
	t.Cleanup(stop)
	return c, stop
}

// TestServed: a program that has a connection of its own to the process with the card writes to one at
// another card, and gets what that one writes.
func TestServed(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{})
	near, other := openVeth(t, veth, 0, lanai.Config{}), openVeth(t, veth, 1, lanai.Config{})
	for i, pair := range [][2]*lanai.Card{{near, other}, {other, near}, {near, near}, {card, near}, {near, card}} {
		if err := writes(t, pair[0], pair[1], uint32(2*i)); err != nil {
			t.Errorf("pair %d: %v", i, err)
		}
	}
	if err := left(card); err != nil {
		t.Error(err)
	}
}

// writes has a process on one card write a page to one on another, which reads it.
func writes(t *testing.T, from, to *lanai.Card, number uint32) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := vmmc.Open(ctx, &vmmc.Config{Card: to, Process: number + 1})
	if err != nil {
		return err
	}
	defer b.Close()
	board, err := b.AllocMem(3 * 4096)
	if err != nil {
		return err
	}
	told := make(chan bool, 1)
	if _, err := b.Export(board, 7, vmmc.Everybody, func(vmmc.Notification) { told <- true }); err != nil {
		return err
	}
	a, err := vmmc.Open(ctx, &vmmc.Config{Card: from, Process: number})
	if err != nil {
		return err
	}
	defer a.Close()
	i, err := a.Import(ctx, vmmc.Name{Process: number + 1, ID: 7})
	if err != nil {
		return err
	}
	own, err := a.AllocMem(4096)
	if err != nil {
		return err
	}
	heap := make([]byte, 5000)
	for k := range heap {
		heap[k] = byte(k)
	}
	copy(own, heap)
	if err := a.SendMsg(ctx, own, i.Addr()+100); err != nil {
		return err
	}
	if err := a.SendMsgWithNotify(ctx, heap, i.Addr()+5000); err != nil {
		return err
	}
	for len(told) == 0 {
		b.Poll()
		runtime.Gosched()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if need.Race {
		return nil // the card's process, here a goroutine, wrote it: the detector does not see the order by the bell
	}
	if string(board[100:][:4096]) != string(heap[:4096]) || string(board[5000:][:5000]) != string(heap) {
		return fmt.Errorf("the board has other contents")
	}
	return nil
}

// TestServedConformance: processes on cards of other processes keep the providers' contract, too.
func TestServedConformance(t *testing.T) {
	veth := vethtest.New(t, 1500)
	providertest.Run(t, func(t *testing.T) providertest.Stage {
		s := &liveStage{}
		for side := range s.hosts {
			served(t, veth, side, false, lanai.Config{MAC: mac(1 + side), Routes: []myrinet.HostRoute{{To: mac(2 - side)}}, PeerTimeout: time.Minute})
			s.hosts[side] = openVeth(t, veth, side, lanai.Config{})
		}
		return s
	})
}

// TestServeEndsWhileMessagesWait: Serve ends though it reads no more of a program, whose messages wait for a
// node that does not answer.
func TestServeEndsWhileMessagesWait(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, stop := served(t, veth, 0, false, lanai.Config{MAC: mac(1), Routes: []myrinet.HostRoute{{To: mac(2)}}, PeerTimeout: time.Hour})
	near := openVeth(t, veth, 0, lanai.Config{})
	p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: near, Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	near.Ask(1, ethertype.Addr{MAC: mac(2), Port: 1}, 100)
	for card.Snapshot().ToSend < 32 {
		runtime.Gosched()
	}
	stop()
}

// TestGoneWhileMessagesWait: a program that ends while the card reads no more of it, because its messages wait for
// a node that does not answer, leaves nothing on the card.
func TestGoneWhileMessagesWait(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{MAC: mac(1), Routes: []myrinet.HostRoute{{To: mac(2)}}, PeerTimeout: time.Hour})
	near := openVeth(t, veth, 0, lanai.Config{})
	if _, err := vmmc.Open(t.Context(), &vmmc.Config{Card: near, Process: 1}); err != nil {
		t.Fatal(err)
	}
	near.Ask(1, ethertype.Addr{MAC: mac(2), Port: 1}, 100)
	for card.Snapshot().ToSend < 32 {
		runtime.Gosched()
	}
	near.Close()
	if err := left(card); err != nil {
		t.Error(err)
	}
}

// TestOlderProgram: a program that shares something else with the card than this version does is told so.
func TestOlderProgram(t *testing.T) {
	veth := vethtest.New(t, 1500)
	served(t, veth, 0, false, lanai.Config{})
	if err := veth.In(0, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		for other, want := range map[int]string{-1: "restart this program", 0: "", 1: "restart the card"} {
			refused, err := lanai.Hello(t.Context(), at, other)
			if err != nil || (refused == "") != (want == "") || !strings.Contains(refused, want) {
				t.Errorf("version %+d: %q, %v, want %q", other, refused, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
