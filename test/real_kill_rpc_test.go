package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// The program of the server that is killed.
const (
	killedProgram = 0x20000b0d
	killedDoor    = 100

	procHang = 1 // does not return as long as the client is there
	procEcho = 2
)

// killedPeerTimeout is how long a process that does not answer is believed to be alive.
const killedPeerTimeout = 2 * time.Second

// killedProcess opens a process of VMMC.
func killedProcess(number uint32) (*vmmc.Process, error) {
	return vmmc.Open(context.Background(), &vmmc.Config{Interface: lab.Interface, Process: number, PeerTimeout: killedPeerTimeout, Logger: slog.New(slog.DiscardHandler)})
}

// killedServerRole answers calls. It prints a line when it does, one for each call that hangs, and
// one when the client of such a call has gone.
func killedServerRole(ctx context.Context) error {
	p, err := killedProcess(1)
	if err != nil {
		return err
	}
	defer p.Close()
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	err = s.Register(&vrpc.Program{Number: killedProgram, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(procHang, "HANG", func(c *vrpc.Call, _, _ *xdr.Void) error {
			fmt.Println("hangs")
			<-c.Context().Done()
			fmt.Println("gone")
			return c.Context().Err()
		}),
		vrpc.Proc(procEcho, "ECHO", func(_ *vrpc.Call, arg, res *octets) error {
			*res = *arg
			return nil
		}),
	}})
	if err == nil {
		_, err = s.ListenVMMC(p, killedDoor, vmmc.Everybody)
	}
	if err != nil {
		return err
	}
	fmt.Println("serves")
	bufio.NewScanner(os.Stdin).Scan() // until it is let go
	return nil
}

type octets struct{ data []byte }

func (o *octets) MarshalXDR(e *xdr.Encoder)   { e.Opaque(o.data, xdr.Unbounded) }
func (o *octets) UnmarshalXDR(d *xdr.Decoder) { o.data = d.Opaque(o.data, xdr.Unbounded) }

// killedClientRole does what the lines of its standard input say, and prints a line for each.
func killedClientRole(ctx context.Context) error {
	p, err := killedProcess(2)
	if err != nil {
		return err
	}
	defer p.Close()
	c, err := vrpc.DialVMMC(ctx, p, vmmc.Name{Process: 1, ID: killedDoor}, killedProgram, 1, &vrpc.ClientConfig{Timeout: -1})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("dialled")
	hanging := make(chan error, 1)
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		said, err := killedClientLine(ctx, c, s.Text(), hanging)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Text(), err)
		}
		fmt.Println(said)
	}
	return nil
}

func killedClientLine(ctx context.Context, c *vrpc.Client, line string, hanging chan error) (said string, err error) {
	switch line {
	case "hang":
		go func() { hanging <- c.Call(ctx, procHang, xdr.Void{}, &xdr.Void{}) }()
		return "calls", nil
	case "lost": // the call under way ends by the server's end, and may have run
		var broken *vrpc.TransportError
		if err := <-hanging; !errors.As(err, &broken) || !broken.Sent || !errors.Is(err, vmmc.ErrPeer) {
			return "", fmt.Errorf("the call has ended with %w", err)
		}
		return "lost", nil
	case "echo": // the next call reaches whoever is the server now
		data, back := octets{[]byte(strings.Repeat("x", 300_000))}, octets{}
		for {
			err := c.Call(ctx, procEcho, &data, &back)
			var broken *vrpc.TransportError
			switch {
			case err == nil && string(back.data) == string(data.data):
				return "echoed", nil
			case err == nil:
				return "", errors.New("the reply is another one")
			case !errors.As(err, &broken): // one that was sent to the server that has ended is lost
				return "", err
			}
		}
	}
	return "", errors.New("no such line")
}

// TestVRPCKilled: kill -9 of the server in the midst of a call ends it at the client with a typed
// error, and kill -9 of the client is noticed by the procedure; either comes back and is
// reached, and nothing is left behind.
func TestVRPCKilled(t *testing.T) {
	l := newVMMCLab(t)
	server := l.start(0, "rpc-server", "serves")
	client := l.start(1, "rpc-client", "dialled")
	client.do("hang", "calls")
	server.expect("hangs")

	kill(t, server.player)
	client.do("lost", "lost")
	server = l.start(0, "rpc-server", "serves")
	client.do("echo", "echoed")

	client.do("hang", "calls")
	server.expect("hangs")
	kill(t, client.player)
	server.expect("gone")
	client = l.start(1, "rpc-client", "dialled")
	client.do("echo", "echoed")
	client.leave()
	server.leave()
	l.clean()
}
