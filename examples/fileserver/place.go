package main

import (
	"context"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// place is the address of a server: of TCP, and optionally a name for VMMC, which clients prefer.
type place struct{ addr, vmmc string }

// doorID is the number of the export that clients over VMMC contact first.
const doorID = 1

// open opens a process of VMMC. Clients find the program, so the process's number does not matter.
func (at place) open(ctx context.Context) (*vmmc.Process, error) {
	return vmmc.Open(ctx, &vmmc.Config{Process: rand.Uint32(), Job: "fileserver/" + at.vmmc})
}

// listen makes a server answer over VMMC, with memory of the returned process.
func (at place) listen(s *vrpc.Server) (*vmmc.Process, error) {
	p, err := at.open(context.Background())
	if err != nil {
		return nil, err
	}
	_, err = s.ListenVMMC(p, doorID, vmmc.Everybody)
	return p, err
}

// closeProcess closes a process if there is one.
func closeProcess(p *vmmc.Process) error {
	if p == nil {
		return nil
	}
	return p.Close()
}

// dial returns a client of the server, and a function that closes it.
func (at place) dial(ctx context.Context) (c *vrpc.Client, closeAll func(), err error) {
	if at.vmmc == "" {
		c, err = vrpc.Dial(ctx, "tcp", at.addr, files.FileProg, files.FileV1, nil)
		return c, func() { c.Close() }, err
	}
	p, err := at.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err = vrpc.DialVMMCProgram(ctx, p, files.FileProg, files.FileV1, nil)
	if err != nil {
		p.Close()
		return nil, nil, err
	}
	return c, func() {
		c.Close()
		p.Close()
	}, nil
}
