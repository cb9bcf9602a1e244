package paper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// The handlers of the active message benchmarks.
const (
	amEcho = 1 + iota // a short request, answered by a short reply of the same arguments
	amTake            // a medium request, answered by a short reply
	amDone            // any reply
)

const amTag endpoint.Tag = 1997

const (
	amMedium   = 8192 // bytes of the longest medium message
	amUnderWay = 4    // requests of a client, the paper's K_user
)

// amNet is a set of hosts on a fabric in virtual time. Their cards run AM-II's control program.
type amNet struct {
	ctx   context.Context
	w     *sim.World
	cards []*lanai.Card
	names [][]endpoint.Name // names of the endpoints of each host

	serve func() error // the program of host 0, if it differs from the others

	clients, opened, warm, over int
}

func amMAC(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 1, byte(i)} }

// newAMNet puts cards into the first n hosts of a topology.
func newAMNet(ctx context.Context, cfg amConfig, t *topology.Topology, n int) (*amNet, error) {
	return newAMNetOf(ctx, t, n, func(int) amConfig { return cfg })
}

// newAMNetOf is like newAMNet, for cards with different configurations.
func newAMNetOf(ctx context.Context, t *topology.Topology, n int, config func(host int) amConfig) (*amNet, error) {
	net := &amNet{ctx: ctx, w: sim.New(sim.Options{Seed: 1, Limit: time.Hour}), names: make([][]endpoint.Name, n)}
	options := config(0).fabric
	options.Seed, options.Ports = 1, t.Ports
	f, err := myrinet.New(net.w, options)
	if err != nil {
		return nil, err
	}
	ports, tables := make([]*myrinet.Port, n), mapper.Routes(t)
	virtual := myrinet.Virtual{World: net.w, Waiter: func() myrinet.Waiter { return net.w.Waiter() }}
	for i := range n {
		cfg := config(i).Config
		cfg.MAC, cfg.Seed, cfg.Routes = amMAC(i), uint64(i+1), []myrinet.HostRoute{}
		for to := range n {
			if to != i {
				cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: amMAC(to), Turns: tables[i][to]})
			}
		}
		c, err := lanai.NewVirtual(virtual, func(h myrinet.Host) *myrinet.Port {
			ports[i] = f.Host(t.Hosts[i], h)
			return ports[i]
		}, &cfg)
		if err != nil {
			return nil, err
		}
		net.cards = append(net.cards, c)
	}
	return net, joinAll(f, t, ports)
}

// joinAll makes the switches and cables of a topology, for the hosts that have ports.
func joinAll(f *myrinet.Fabric, t *topology.Topology, ports []*myrinet.Port) error {
	switches := make([]*myrinet.Switch, len(t.Switches))
	for i, name := range t.Switches {
		switches[i] = f.Switch(name)
	}
	at := func(p topology.Plug) *myrinet.Port {
		switch {
		case !p.Host:
			return switches[p.Node].Port(p.Port)
		case p.Node < len(ports):
			return ports[p.Node]
		}
		return nil
	}
	for _, c := range t.Cables {
		if a, b := at(c.A), at(c.B); a != nil && b != nil {
			if _, err := f.Join(a, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// amHost is a program with endpoints. It sends from the first one.
type amHost struct {
	net  *amNet
	w    *sim.World
	ctx  context.Context
	node *endpoint.Node
	b    *endpoint.Bundle
	ep   *endpoint.Endpoint
	done int   // replies that have arrived
	back error // a message was returned
}

func (net *amNet) openNode(i int) (*endpoint.Node, error) {
	return endpoint.Open(context.Background(), &endpoint.Config{
		Card: net.cards[i], Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		MaxMedium: amMedium, Credits: endpoint.Credits{Short: 16, Medium: 4, Bulk: 1},
	})
}

func (net *amNet) openHost(i, endpoints int) (*amHost, error) {
	node, err := net.openNode(i)
	if err != nil {
		return nil, err
	}
	h := &amHost{net: net, w: net.w, ctx: net.ctx, node: node}
	if h.b, err = node.NewBundle(endpoint.Sequential); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	for range endpoints {
		if err := h.newEndpoint(i); err != nil {
			return nil, errors.Join(err, node.Close())
		}
	}
	return h, nil
}

// newEndpoint adds an endpoint to host i.
func (h *amHost) newEndpoint(i int) error {
	ep, err := h.b.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(amTag)
	ep.SetHandler(amEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(amDone, args...) })
	ep.SetHandler(amTake, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(amDone, 1, 2, 3, 4) })
	ep.SetHandler(amDone, func(endpoint.Token, []uint32, []byte) { h.done++ })
	ep.SetReturnHandler(func(r *endpoint.Returned) {
		h.back = errors.Join(fmt.Errorf("a message was returned: %v", r.Reason), r.Err)
	})
	h.net.names[i] = append(h.net.names[i], ep.Name())
	if h.ep == nil {
		h.ep = ep
	}
	return nil
}

// short sends a request of four words. medium sends a request with n bytes of payload. Both wait
// for a credit.
func (h *amHost) short() error { return h.ep.Request(h.ctx, 0, amEcho, 1, 2, 3, 4) }

func (h *amHost) medium(n int) func() error {
	data := make([]byte, n)
	return func() error { return h.ep.RequestMedium(h.ctx, 0, amTake, data) }
}

// poll lets the host's outstanding work pass as time, and handles arrived messages, for at most d.
func (h *amHost) poll(d time.Duration) error {
	ctx, cancel := h.node.WithTimeout(h.ctx, d)
	defer cancel()
	_, err := h.b.WaitPoll(ctx)
	if errors.Is(err, context.DeadlineExceeded) && h.ctx.Err() == nil {
		err = nil
	}
	return errors.Join(err, h.back)
}

// until polls until a condition holds.
func (h *amHost) until(so func() bool) error {
	for !so() {
		if err := h.poll(time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// await polls until n replies have arrived in total.
func (h *amHost) await(n int) error { return h.until(func() bool { return h.done >= n }) }

// amTarget is the endpoint to which a host sends requests; host is -1 for a host that sends none.
type amTarget struct{ host, endpoint int }

// run makes each host open its endpoints. When all hosts are ready, each host with a target runs
// client. All hosts answer requests until all clients have finished.
func (net *amNet) run(endpoints func(host int) int, target func(host int) amTarget, client func(h *amHost, i int) error) error {
	errs := make([]error, len(net.cards))
	for i := range net.cards {
		if target(i).host >= 0 {
			net.clients++
		}
	}
	for i := range net.cards {
		net.w.Go(fmt.Sprint("host ", i), func() {
			if errs[i] = net.host(i, endpoints(i), target(i), client); errs[i] != nil {
				net.over = net.clients // the other hosts end, too
			}
		})
	}
	return errors.Join(net.w.Run(), errors.Join(errs...))
}

// host runs the program of a host.
func (net *amNet) host(i, endpoints int, to amTarget, client func(h *amHost, i int) error) error {
	if i == 0 && net.serve != nil {
		return net.serve()
	}
	h, err := net.openHost(i, endpoints)
	if err != nil {
		return err
	}
	net.opened++
	return errors.Join(h.take(to, func() error { return client(h, i) }), h.node.Close())
}

// take is a host's part in a run.
func (h *amHost) take(to amTarget, client func() error) error {
	net := h.net
	if err := h.until(func() bool { return net.opened == len(net.cards) || net.over == net.clients }); err != nil {
		return err
	}
	if to.host >= 0 && net.over < net.clients {
		if err := errors.Join(h.ep.Map(0, net.names[to.host][to.endpoint], amTag), h.prepare()); err != nil {
			return err
		}
		net.warm++
		if err := h.until(func() bool { return net.warm == net.clients || net.over == net.clients }); err != nil {
			return err
		}
		if err := client(); err != nil {
			return err
		}
		net.over++
	}
	return h.until(func() bool { return net.over >= net.clients })
}

// prepare sends requests, so that every channel is initialized, and endpoints and staging areas are
// in place.
func (h *amHost) prepare() error {
	medium := h.medium(amMedium)
	for range 4 {
		want := h.done + 8
		for range 4 {
			if err := errors.Join(h.short(), medium()); err != nil {
				return err
			}
		}
		if err := h.await(want); err != nil {
			return err
		}
	}
	return nil
}

// one gives each host one endpoint.
func one(int) int { return 1 }

// onServer makes all hosts except the first send requests to the first.
func onServer(host int) amTarget {
	if host == 0 {
		return amTarget{host: -1}
	}
	return amTarget{}
}
