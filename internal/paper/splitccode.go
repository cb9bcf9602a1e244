package paper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// codeProgram is a Split-C program of two processes that uses package splitc: over VIs of package
// vipl on cards that carry frames, or over active messages on the NOW's cards. A process of the
// Millennium is charged the paper's overheads o_s and o_r for each frame. The poll routine and the
// other costs of AMVIA are not charged, because they belong to other code.
type codeProgram struct {
	w     *sim.World
	layer string
	cards []*lanai.Card // of the NOW; nil on the Millennium
	links [2]transport.Link
	errs  [2]error
}

// paying is the link of a process that pays for each frame. The debt is paid in the next wait, when
// the process holds no lock.
type paying struct {
	optional.Parking
	w             *sim.World
	send, receive time.Duration
	debt          time.Duration
}

func (l *paying) Send(frames []transport.Frame) (int, error) {
	n, err := l.Parking.Send(frames)
	l.debt += time.Duration(n) * l.send
	return n, err
}

func (l *paying) Recv(views [][]byte) (int, error) {
	n, err := l.Parking.Recv(views)
	l.debt += time.Duration(n) * l.receive
	return n, err
}

// Wait implements transport.Link.
func (l *paying) Wait(until int64) error {
	if err := l.pay(); err != nil {
		return err
	}
	return l.Parking.Wait(until)
}

func (l *paying) pay() error {
	d := l.debt
	l.debt = 0
	if d == 0 {
		return nil
	}
	return l.w.Sleep(d)
}

// overVIs returns a program over VIs on the Millennium's cards.
func (m *viaModel) overVIs(layer string) (*codeProgram, error) {
	p := &codeProgram{w: sim.New(sim.Options{Seed: 1, Limit: time.Hour}), layer: layer}
	options := m.fabric
	options.Seed = 1
	f, err := myrinet.New(p.w, options)
	if err != nil {
		return nil, err
	}
	var ports [2]*myrinet.Port
	mac := func(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 5, byte(i)} }
	virtual := myrinet.Virtual{World: p.w, Waiter: func() myrinet.Waiter { return p.w.Waiter() }}
	for i := range p.links {
		link, err := plain.NewVirtual(virtual, func(h myrinet.Host) *myrinet.Port {
			ports[i] = f.Host(fmt.Sprint("card ", i), h)
			return ports[i]
		}, plain.Config{MAC: mac(i), MTU: 4096 + 256, Card: myrinet.CardConfig{Timing: m.timing, SRAM: 1 << 20}})
		if err != nil {
			return nil, err
		}
		p.links[i] = &paying{Parking: link, w: p.w, send: m.send, receive: m.receive}
	}
	_, err = f.Join(ports[0], ports[1])
	return p, err
}

// onNOWCards returns a program over active messages on the NOW's cards. The job's own messages use
// another network.
func onNOWCards(ctx context.Context) (*codeProgram, error) {
	net, err := newAMNet(ctx, nowConfig(), topology.Line(8, 1, 2), 2)
	if err != nil {
		return nil, err
	}
	p := &codeProgram{w: net.w, layer: "am", cards: net.cards}
	for i := range p.links {
		p.links[i] = p.w.Station(fmt.Sprint("process ", i))
	}
	return p, nil
}

// operation is a Split-C operation on the target of a pointer.
type operation func(ctx context.Context, w *splitc.World, p splitc.Global[int32]) error

// measure makes the first process, or both processes, do an operation n times. A process that does
// no operations serves the other one. measure returns the time of each operation in microseconds,
// until all operations are complete and all stores have arrived.
func (p *codeProgram) measure(ctx context.Context, both bool, n int, do operation) (us float64, err error) {
	for rank := range p.links {
		p.w.Go(fmt.Sprint("process ", rank), func() {
			p.errs[rank] = p.rank(ctx, rank, func(w *splitc.World, other splitc.Global[int32]) error {
				began := p.w.Now()
				for range n {
					if rank > 0 && !both {
						break
					}
					if err := do(ctx, w, other); err != nil {
						return err
					}
				}
				err := errors.Join(w.Sync(ctx), w.AllStoreSync(ctx))
				us = max(us, micro(time.Duration(p.w.Now()-began))/float64(n))
				return err
			})
		})
	}
	return us, errors.Join(p.w.Run(), errors.Join(p.errs[:]...))
}

func (p *codeProgram) rank(ctx context.Context, rank int, program func(w *splitc.World, other splitc.Global[int32]) error) error {
	nic, err := vipl.Open(ctx, &vipl.Config{Link: p.links[rank], Seed: uint64(rank + 1)})
	if err != nil {
		return err
	}
	cfg := splitc.Config{Config: job.Config{Job: "paper", Rank: rank, Size: len(p.links), NIC: nic}, Layer: p.layer, HeapSize: 128 << 10}
	if p.cards != nil {
		cfg.Card = p.cards[rank]
	}
	return errors.Join(sharedRank(ctx, cfg, func(w *splitc.World, other splitc.Global[int32]) error {
		if err := w.Barrier(ctx); err != nil {
			return err
		}
		return program(w, other)
	}), nic.Close())
}

// codeTimes returns the times of Split-C's primitives of an int, like viaModel.measure.
func codeTimes(ctx context.Context, open func() (*codeProgram, error), both bool) (times primitives, err error) {
	for i, primitive := range sharedPrimitives {
		p, err := open()
		if err != nil {
			return times, err
		}
		n := viaBurst
		if i < 2 {
			n = viaRounds
		}
		if times[i], err = p.measure(ctx, both, n, primitive); err != nil {
			return times, err
		}
	}
	return times, nil
}

// besidePrimitives measures the values of figure 6-3 with package splitc, in addition to the
// models.
func besidePrimitives(b *Bench, m *viaModel) error {
	if b.change != nil {
		return nil
	}
	now, err := codeTimes(b.Context, func() (*codeProgram, error) { return onNOWCards(b.Context) }, false)
	if err != nil {
		return err
	}
	ahead := true
	one, ratio := map[string]primitives{}, primitives{}
	layers := []string{"am", "reliable", "unreliable"}
	for _, layer := range layers {
		open := func() (*codeProgram, error) { return m.overVIs(layer) }
		if one[layer], err = codeTimes(b.Context, open, false); err != nil {
			return fmt.Errorf("layer %s: %w", layer, err)
		}
		both, err := codeTimes(b.Context, open, true)
		if err != nil {
			return fmt.Errorf("layer %s: %w", layer, err)
		}
		for k := range ratio {
			ratio[k] += both[k] / one[layer][k] / float64(len(layers))
			ahead = ahead && now[k] < one[layer][k]
		}
	}
	b.besidePrimitives(one, ratio, ahead)
	return nil
}

// besidePrimitives records the values of figure 6-3.
func (b *Bench) besidePrimitives(one map[string]primitives, ratio primitives, ahead bool) {
	const put, store = 3, 4
	for _, layer := range []string{"reliable", "unreliable"} {
		b.Beside("fig6-3.stores_"+layer, one[layer][put]/one[layer][store])
	}
	for k, name := range []string{"read", "write", "get", "put", "store"} {
		b.Beside("fig6-3.both_"+name, ratio[k])
	}
	b.Beside("fig6-3.now", truth(ahead))
	am := one["am"]
	favours := func(p primitives) bool { return p[store] < am[store] && am[store]/p[store] > am[put]/p[put] }
	b.Beside("fig6-3.overhead", truth(favours(one["reliable"]) && favours(one["unreliable"])))
}

// besideBulk measures the values of figure 6-4 with package splitc, in addition to the model.
func besideBulk(b *Bench, m *viaModel) error {
	if b.change != nil {
		return nil
	}
	times := map[int][2]float64{}
	for _, n := range []int{1, 1024} { // ints
		var us [2]float64
		for i, both := range []bool{false, true} {
			p, err := m.overVIs("unreliable")
			if err != nil {
				return err
			}
			if us[i], err = p.measure(b.Context, both, viaBurst/4, func(ctx context.Context, w *splitc.World, other splitc.Global[int32]) error {
				return splitc.BulkGet(ctx, w, make([]int32, n), other)
			}); err != nil {
				return err
			}
		}
		times[n] = us
	}
	ratio := func(n int) float64 { return times[n][1] / times[n][0] }
	b.Beside("fig6-4.small", ratio(1))
	b.Beside("fig6-4.large", truth(ratio(1024) < ratio(1)))
	return nil
}
