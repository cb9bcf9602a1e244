package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// victim is a program on a served card that is killed while it works.
type victim struct {
	ctx    context.Context
	card   *lanai.Card
	number uint32
	rng    *rand.Rand
	killAt int // the operation during which it is killed
	kill   func()
}

// step counts an operation that is about to begin, and kills the program during it if it is the one.
func (v *victim) step() {
	if v.killAt--; v.killAt == 0 {
		go v.kill()
	}
}

// run opens a process, exports a board, imports another one's, and writes to it until it is killed.
func (v *victim) run(to vmmc.Name) error {
	v.step()
	p, err := vmmc.Open(v.ctx, &vmmc.Config{Card: v.card, Process: v.number})
	if err != nil {
		return err
	}
	defer p.Close()
	v.step()
	board, err := p.AllocMem(boardSize)
	if err != nil {
		return err
	}
	v.step()
	e, err := p.Export(board, 7, vmmc.Everybody, func(vmmc.Notification) {})
	if err != nil {
		return err
	}
	v.step()
	i, err := p.Import(v.ctx, to)
	if err != nil {
		return err
	}
	for {
		v.step()
		n := 1 + v.rng.IntN(boardSize)
		switch v.rng.IntN(6) {
		case 0:
			err = p.SendMsgWithNotify(v.ctx, board[:n], i.Addr())
		case 1:
			err = p.SendMsg(v.ctx, make([]byte, 1+v.rng.IntN(vmmc.DefaultShort)), i.Addr())
		case 2:
			if err = i.Unimport(v.ctx); err == nil {
				v.step()
				i, err = p.Import(v.ctx, to)
			}
		case 3:
			if err = e.Unexport(v.ctx); err == nil {
				v.step()
				e, err = p.Export(board, 7, vmmc.Everybody, func(vmmc.Notification) {})
			}
		case 4:
			var more []byte
			if more, err = p.AllocMem(n); err == nil {
				v.step()
				p.FreeMem(more)
			}
		default:
			err = p.SendMsg(v.ctx, board[:n], i.Addr())
		}
		if err != nil {
			return err
		}
	}
}

// haunt writes to the victim's board, as often as it is exported, until the victim has ended.
func haunt(ctx context.Context, p *vmmc.Process, victim vmmc.Name) error {
	b := make([]byte, boardSize)
	for {
		i, err := p.Import(ctx, victim)
		for n := 0; err == nil; n++ {
			if n%5 == 0 {
				err = p.SendMsgWithNotify(ctx, b, i.Addr())
			} else {
				err = p.SendMsg(ctx, b[:1+n*997%boardSize], i.Addr())
			}
		}
		if i != nil {
			i.Unimport(context.WithoutCancel(ctx))
		}
		if !errors.Is(err, vmmc.ErrUnexported) {
			return err
		}
	}
}

// TestKilledStages: a program whose connection with the card breaks at any stage, as by kill -9, while it
// writes and others write to it, leaves nothing on the card. The others go on.
func TestKilledStages(t *testing.T) {
	rounds := 20
	if need.Full() {
		rounds = 500
	}
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{Processes: 16, Card: myrinet.CardConfig{SRAM: 1 << 20}})
	near, far := openVeth(t, veth, 0, lanai.Config{}), openVeth(t, veth, 1, lanai.Config{PeerTimeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var boards [2]*vmmc.Process // on the same card, and on the other one
	var ghosts [2]*vmmc.Process
	for k, c := range []*lanai.Card{near, far} {
		p, _, err := exporter(ctx, c, uint32(90+k))
		if err != nil {
			t.Fatal(err)
		}
		boards[k] = p
		if ghosts[k], err = vmmc.Open(ctx, &vmmc.Config{Card: c, Process: uint32(92 + k), PeerTimeout: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	standing := len(card.Snapshot().Processes)
	for round := range rounds {
		if err := killedStage(ctx, t, veth, round, boards, ghosts); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for end := time.Now().Add(time.Minute); len(card.Snapshot().Processes) != standing; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("round %d: %d processes, want %d", round, len(card.Snapshot().Processes), standing)
			}
		}
		if round%10 == 9 {
			if err := errors.Join(writes(t, near, far, 100), writes(t, far, near, 102)); err != nil {
				t.Fatalf("round %d: others: %v", round, err)
			}
		}
	}
	for k := range boards {
		boards[k].Close()
		ghosts[k].Close()
	}
	if err := left(card); err != nil {
		t.Error(err)
	}
}

// killedStage has a victim and a ghost work until the victim is killed.
func killedStage(ctx context.Context, t *testing.T, veth *vethtest.Pair, round int, boards, ghosts [2]*vmmc.Process) error {
	rng := rand.New(rand.NewPCG(uint64(round), 41))
	c := openVeth(t, veth, 0, lanai.Config{})
	defer c.Close()
	side, from := rng.IntN(2), rng.IntN(2)
	to := vmmc.Name{Node: boards[side].Self().Node, Process: boards[side].Self().Process, ID: 7}
	work, stop := context.WithCancel(ctx)
	defer stop()
	v := &victim{ctx: ctx, card: c, number: 1, rng: rng, killAt: 1 + rng.IntN(30), kill: func() {
		lanai.Kill(c)
		stop()
	}}
	self := vmmc.Name{Node: boards[0].Self().Node, Process: 1, ID: 7}
	var ghost sync.WaitGroup
	var haunted error
	ghost.Go(func() { haunted = haunt(work, ghosts[from], self) })
	err := v.run(to)
	if v.killAt > 0 {
		stop()
	}
	<-work.Done()
	ghost.Wait()
	switch {
	case v.killAt > 0 || !errors.Is(err, vmmc.ErrClosed) && !errors.Is(err, transport.ErrGone):
		return fmt.Errorf("the program ends by %w", err)
	case !errors.Is(haunted, vmmc.ErrPeer) && !errors.Is(haunted, context.Canceled):
		return fmt.Errorf("its peer ends by %w", haunted)
	}
	return nil
}
