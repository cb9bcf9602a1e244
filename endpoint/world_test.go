package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var seeding = seedtest.Flags("endpoint", 20)

var seeds = seeding.Each

func init() { endpoint.Seeds = seeds }

var bg = context.Background()

// quiet discards what nodes log.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// world is a simulated segment with a node on each station. Names are told
// through a board that all processes see.
type world struct {
	*sim.World
	errs     []error
	board    map[string]endpoint.Name
	stations map[string]*sim.Station
	left     int // processes that have not finished
}

func newWorld(opts sim.Options) *world {
	if opts.Limit == 0 {
		opts.Limit = 2 * time.Minute
	}
	return &world{World: sim.New(opts), board: map[string]endpoint.Name{}, stations: map[string]*sim.Station{}}
}

// node runs fn as a process with a node of its own. Errors that errors.Is
// finds errDead in are not reported.
func (w *world) node(name string, cfg endpoint.Config, fn func(n *endpoint.Node) error) {
	w.nodeOn(w.Station(name), name, cfg, fn)
}

// nodeOn is node on a station that there is already.
func (w *world) nodeOn(station *sim.Station, name string, cfg endpoint.Config, fn func(n *endpoint.Node) error) {
	w.stations[name] = station
	w.left++
	w.Go(name, func() {
		defer func() { w.left-- }()
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(len(name)) + uint64(name[len(name)-1])})
		if err == nil {
			cfg.NIC = nic
			if cfg.Logger == nil {
				cfg.Logger = quiet
			}
			var n *endpoint.Node
			if n, err = endpoint.Open(context.Background(), &cfg); err == nil {
				err = fn(n)
				n.Close()
			}
			nic.Close()
		}
		if err != nil && !errors.Is(err, errDead) {
			w.errs = append(w.errs, fmt.Errorf("%s at %v: %w", name, time.Duration(w.Now()-sim.Start), err))
		}
	})
}

var errDead = errors.New("this process is dead")

func (w *world) run() error {
	err := w.Run()
	return errors.Join(append(w.errs, err)...)
}

// find waits until a name is on the board.
func (w *world) find(name string) endpoint.Name {
	for {
		if n, ok := w.board[name]; ok {
			return n
		}
		if w.Sleep(100*time.Microsecond) != nil {
			return endpoint.Name{}
		}
	}
}

// party is an endpoint in a bundle of its own that accepts everything and keeps
// what came back.
type party struct {
	b        *endpoint.Bundle
	ep       *endpoint.Endpoint
	returned []endpoint.Returned
}

func newParty(n *endpoint.Node) (*party, error) {
	b, err := n.NewBundle(endpoint.Sequential)
	if err != nil {
		return nil, err
	}
	p := &party{b: b}
	if p.ep, err = b.NewEndpoint(); err != nil {
		return nil, err
	}
	p.ep.SetTag(endpoint.TagAll)
	p.ep.SetReturnHandler(func(r *endpoint.Returned) {
		kept := *r
		kept.Args = append([]uint32(nil), r.Args...)
		kept.Data = append([]byte(nil), r.Data...)
		p.returned = append(p.returned, kept)
	})
	return p, nil
}

// until polls until done, or for a minute of the node's time.
func (p *party) until(n *endpoint.Node, what string, done func() bool) error {
	ctx, cancel := n.NIC().WithTimeout(bg, time.Minute)
	defer cancel()
	for !done() {
		if _, err := p.b.WaitPoll(ctx); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
	return nil
}

// serve polls until done, though nothing may come any more.
func (p *party) serve(n *endpoint.Node, done *bool) error {
	for !*done {
		ctx, cancel := n.NIC().WithTimeout(bg, 10*time.Millisecond)
		_, err := p.b.WaitPoll(ctx)
		cancel()
		if errors.Is(err, endpoint.ErrClosed) && !*done { // the station has been killed
			return errDead
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil
}

// pair runs a server and a client, each with an endpoint. The server serves
// until the client has finished. setup is called before the server's name is
// known; the client has mapped the server to index 0.
func pair(opts sim.Options, cfg endpoint.Config, setup func(s *party), client func(n *endpoint.Node, c *party) error) error {
	w := newWorld(opts)
	w.pair(cfg, setup, client)
	return w.run()
}

func (w *world) pair(cfg endpoint.Config, setup func(s *party), client func(n *endpoint.Node, c *party) error) {
	done := false
	w.node("server", cfg, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		nodes.Store(s.b, n)
		setup(s)
		w.board["server"] = s.ep.Name()
		return s.serve(n, &done)
	})
	w.node("client", cfg, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		if err := c.ep.Map(0, w.find("server"), 7); err != nil {
			return err
		}
		return client(n, c)
	})
}

// pattern fills b with bytes that tell message i from every other.
func pattern(b []byte, i int) []byte {
	for k := range b {
		b[k] = byte(k*7 + i*13 + k>>8)
	}
	return b
}
