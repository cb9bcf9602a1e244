package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/bobnet-go/bobnet/vmmc"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// rpcUser is a program that calls remote procedures over the card of $BOBNET_IFACE. Rank 0 is the server.
func rpcUser() {
	if err := runRPCUser(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	rpcUserProgram = 0x20000b0c
	rpcUserEcho    = 1
	rpcUserOver    = 2
)

type rpcUserText struct{ data []byte }

func (x *rpcUserText) MarshalXDR(e *xdr.Encoder)   { e.Opaque(x.data, xdr.Unbounded) }
func (x *rpcUserText) UnmarshalXDR(d *xdr.Decoder) { x.data = d.Opaque(x.data, xdr.Unbounded) }

func runRPCUser(ctx context.Context) error {
	rank, err := strconv.Atoi(os.Getenv("BOBNET_RANK"))
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(os.Getenv("BOBNET_SIZE"))
	if err != nil {
		return err
	}
	card, err := vmmccard.Open(ctx, &vmmccard.Config{Interface: os.Getenv("BOBNET_IFACE")})
	if err != nil {
		return err
	}
	defer card.Close()
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: card, Process: uint32(rank), Job: "rpcuser"})
	if err != nil {
		return err
	}
	defer p.Close()
	if rank == 0 {
		return serveRPCUsers(p, size-1)
	}
	c, err := vrpc.DialVMMC(ctx, p, vmmc.Name{Node: p.Self().Node, ID: 1}, rpcUserProgram, 1, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range 200 {
		arg, res := rpcUserText{bytes.Repeat([]byte{byte(rank), byte(i)}, 1+i*i)}, rpcUserText{} // some in pieces
		if err := c.Call(ctx, rpcUserEcho, &arg, &res); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if !bytes.Equal(arg.data, res.data) {
			return fmt.Errorf("call %d: the reply differs", i)
		}
	}
	var void xdr.Void
	return c.Call(ctx, rpcUserOver, void, &void)
}

// serveRPCUsers serves clients until each has reported its end.
func serveRPCUsers(p *vmmc.Process, clients int) error {
	over := make(chan struct{}, clients)
	s := vrpc.NewServer(nil)
	err := s.Register(&vrpc.Program{Number: rpcUserProgram, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(rpcUserEcho, "ECHO", func(_ *vrpc.Call, arg, res *rpcUserText) error { *res = *arg; return nil }),
		vrpc.Proc(rpcUserOver, "OVER", func(_ *vrpc.Call, _, _ *xdr.Void) error { over <- struct{}{}; return nil }),
	}})
	if err == nil {
		_, err = s.ListenVMMC(p, 1, vmmc.Everybody)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	for range clients {
		<-over
	}
	return s.Close()
}
