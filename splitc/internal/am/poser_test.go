package am

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// posers is a job of three ranks, of which rank 1 says to rank 2 that it is rank 0.
type posers struct {
	*sim.World
	early bool // before rank 0 can be found, and else before rank 0 says so
	cards []*lanai.Card
	posed bool
	heard []string // by rank 2
	ended int
	errs  []error
}

// TestPoser: a rank says that it is another one, before that does. It is a stray, and so is what
// it sends in the other's name, who is served.
func TestPoser(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, cards := range []bool{false, true} {
			t.Run(fmt.Sprintf("early=%v,cards=%v", early, cards), func(t *testing.T) {
				p := &posers{World: sim.New(sim.Options{Limit: 10 * time.Minute}), early: early}
				var err error
				if cards {
					p.cards, err = layertest.Cards(p.World, 3)
				}
				for me := range 3 {
					at := p.Station(fmt.Sprint("rank ", me))
					p.Go(at.String(), func() {
						if err := p.rank(at, me); err != nil {
							p.errs = append(p.errs, fmt.Errorf("rank %d: %w", me, err))
						}
					})
				}
				if err = errors.Join(append(p.errs, err, p.Run())...); err != nil {
					t.Error(err)
				}
				slices.Sort(p.heard)
				if want := []string{"0 rank 0", "1 rank 1"}; !slices.Equal(p.heard, want) {
					t.Errorf("rank 2 has heard %q, want %q", p.heard, want)
				}
			})
		}
	}
}

// Call and Control are the side above of rank 2.
func (p *posers) Call(int, uint32, []byte, []byte) int { return 0 }
func (p *posers) Control(from int, msg []byte) {
	p.heard = append(p.heard, fmt.Sprint(from, " ", string(msg)))
}

func (p *posers) rank(at *sim.Station, me int) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: at, Seed: uint64(me) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	ctx := context.Background()
	m, err := job.Open(ctx, &job.Config{Job: "posers", Rank: me, Size: 3, NIC: nic}, job.Program{Name: "posers", Version: 1})
	if err != nil {
		return err
	}
	watch := layer.NewWatch(nic, m, time.Minute)
	defer watch.End()
	c := layer.Config{Member: m, NIC: nic, Rank: me, Procs: 3, HeapSize: 4096, Handler: p, Watch: watch, Logger: slog.New(slog.DiscardHandler)}
	if p.cards != nil {
		c.Card = p.cards[me]
	}
	err = p.program(ctx, c)
	if err == nil {
		return m.Leave(ctx)
	}
	m.Fail(err)
	return err
}

func (p *posers) program(ctx context.Context, c layer.Config) error {
	switch {
	case c.Rank == 1:
		if err := p.pose(ctx, c); err != nil {
			return err
		}
		p.posed = true
	case c.Rank == 0 && p.early:
		for !p.posed {
			if err := p.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
	}
	opened, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer opened.Close()
	if c.Rank < 2 {
		err = opened.Control(ctx, 2, fmt.Appendf(nil, "rank %d", c.Rank))
	}
	c.Watch.Begin()
	for p.ended++; err == nil && (p.ended < 3 || len(p.heard) < 2); {
		if err = opened.Wait(c.Watch.Slice()); err == nil {
			err = c.Watch.Check(ctx)
		}
	}
	if n := opened.Stats().Strays; err == nil && c.Rank == 2 && n != 2 {
		err = fmt.Errorf("%d messages were strays, want 2", n)
	}
	return err
}

// pose says to rank 2 that this is rank 0, and a message in its name.
func (p *posers) pose(ctx context.Context, c layer.Config) error {
	if !p.early { // rank 0 waits for rank 1, and rank 2 finds rank 0
		if err := p.Sleep(time.Second); err != nil {
			return err
		}
	}
	cfg := endpoint.Config{NIC: c.NIC, Card: c.Card, Credits: credits}
	if c.Card != nil {
		cfg.NIC = nil
	}
	n, err := endpoint.Open(ctx, &cfg)
	if err != nil {
		return err
	}
	defer n.Close()
	l := &Layer{cfg: c, node: n}
	name, err := n.Find(ctx, l.word(2))
	if err != nil {
		return err
	}
	bundle, err := n.NewBundle(endpoint.Sequential)
	if err != nil {
		return err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(l.tag())
	answered := 0
	err = errors.Join(ep.SetHandler(hStoreDone, func(endpoint.Token, []uint32, []byte) { answered++ }),
		ep.SetHandler(hControlDone, func(endpoint.Token, []uint32, []byte) { answered++ }), ep.Map(0, name, l.tag()))
	if err == nil {
		err = ep.Request(ctx, 0, hHello, 0)
	}
	if err == nil {
		err = ep.Request(ctx, 0, hControl, 0, 0, 4, 0x65736f70)
	}
	for i := 0; i < 500 && err == nil; i++ {
		if _, err = bundle.Poll(); err == nil {
			err = p.Sleep(time.Millisecond)
		}
	}
	if err == nil && answered > 0 {
		err = errors.New("rank 2 has answered as if this were rank 0")
	}
	return err
}
