package rpcbind

import (
	"context"

	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// DialVMMC returns a client of a program over VMMC, from process p. Where its server is, is
// what rpcbind at a host says for netid "vmmc", asked over TCP; if no host is named, or
// rpcbind there does not answer or does not know it, what the name service of the segment
// says.
func DialVMMC(ctx context.Context, p *vmmc.Process, host string, prog, vers uint32, cfg *vrpc.ClientConfig) (*vrpc.Client, error) {
	if host != "" {
		if name, err := findVMMC(ctx, host, prog, vers, cfg); err == nil {
			return vrpc.DialVMMC(ctx, p, name, prog, vers, cfg)
		}
	}
	return vrpc.DialVMMCProgram(ctx, p, prog, vers, cfg)
}

func findVMMC(ctx context.Context, host string, prog, vers uint32, cfg *vrpc.ClientConfig) (name vmmc.Name, err error) {
	c, err := Dial(ctx, "tcp", host, cfg)
	if err != nil {
		return name, err
	}
	defer c.Close()
	addr, err := c.Addr(ctx, prog, vers, "vmmc")
	if err != nil {
		return name, err
	}
	return vrpc.ParseVMMC(addr)
}
