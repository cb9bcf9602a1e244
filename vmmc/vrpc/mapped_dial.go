package vrpc

import (
	"context"

	"github.com/bobnet-go/bobnet/vmmc"
)

// DialVMMC returns a client of a program at a server that has called ListenVMMC. The
// connection uses memory of process p, which the caller closes. DialVMMC waits for the
// server until ctx ends or ClientConfig.DialTimeout has passed.
func DialVMMC(ctx context.Context, p *vmmc.Process, name vmmc.Name, prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	find := func(ctx context.Context) (*vmmc.Import, error) { return p.Import(ctx, name) }
	return dialMapped(ctx, p, mappedAddr(name), find, prog, vers, cfg)
}

// DialVMMCProgram is DialVMMC to a server that the name service of the segment finds by the
// program's number.
func DialVMMCProgram(ctx context.Context, p *vmmc.Process, prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	find := func(ctx context.Context) (*vmmc.Import, error) { return p.ImportWord(ctx, programWord(prog, vers)) }
	return dialMapped(ctx, p, mappedAddr{}, find, prog, vers, cfg)
}

// dialMapped makes a client of what find finds.
func dialMapped(ctx context.Context, p *vmmc.Process, addr mappedAddr, find func(context.Context) (*vmmc.Import, error), prog, vers uint32, cfg *ClientConfig) (*Client, error) {
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	t := newStreamClient(addr.String(), cfg)
	t.dial = func(ctx context.Context) (clientConn, error) {
		door, err := find(ctx)
		if err != nil {
			return nil, err
		}
		defer door.Unimport(context.WithoutCancel(ctx))
		m, err := knock(ctx, door, p, ringSize(cfg.Ring))
		if err != nil {
			return nil, err
		}
		owner := door.Owner()
		at := mappedAddr{Node: owner.Node, Process: owner.Process, ID: addr.ID}
		return &mappedConn{mapped: m, addr: at, max: t.max, calls: newPending(), stats: &t.clientStats, dead: make(chan struct{})}, nil
	}
	if _, err := t.connectFirst(ctx); err != nil {
		return nil, err
	}
	return NewClient(t, prog, vers, cfg), nil
}
