package vrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

var seeds = seedtest.Flags("vrpc", 5).Each

// simulated runs fn with a process of VMMC in a simulated network.
func simulated(w *sim.World, number uint32, errs *[]error, fn func(p *vmmc.Process) error) {
	station := w.Station(fmt.Sprint("process ", number))
	w.Go(fmt.Sprint("process ", number), func() {
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(number) + 7})
		if err != nil {
			*errs = append(*errs, err)
			return
		}
		defer nic.Close()
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		p, err := vmmc.Open(context.Background(), &vmmc.Config{NIC: nic, Process: number, Logger: quiet, PeerTimeout: 20 * time.Second})
		if err == nil {
			defer p.Close()
			err = fn(p)
		}
		if err != nil {
			*errs = append(*errs, fmt.Errorf("process %d: %w", number, err))
		}
	})
}

type opaque struct{ data []byte }

func (o *opaque) MarshalXDR(e *xdr.Encoder)   { e.Opaque(o.data, xdr.Unbounded) }
func (o *opaque) UnmarshalXDR(d *xdr.Decoder) { o.data = d.Opaque(o.data, xdr.Unbounded) }

// Calls of all lengths, longer than the rings too, pass a network in virtual time that loses and
// reorders frames; batched ones have run before the call behind them.
func TestMappedSimulated(t *testing.T) {
	seeds(t, 5, func(seed uint64) error {
		w := sim.New(sim.Options{Seed: seed, Loss: 0.1, Reorder: 0.2, Limit: 10 * time.Minute})
		var errs []error
		simulated(w, 1, &errs, answerOne)
		simulated(w, 2, &errs, callSimulated)
		err := w.Run()
		return errors.Join(append(errs, err)...)
	})
}

// answerOne answers the calls of one client.
func answerOne(p *vmmc.Process) error {
	s := NewServer(&ServerConfig{Ring: 8000, IdleTimeout: -1, RecordTimeout: -1})
	batched := 0
	err := s.Register(&Program{Number: 7, Version: 1, Procedures: []Procedure{
		Proc(1, "ECHO", func(_ *Call, arg, res *opaque) error {
			res.data = append(arg.data, byte(batched))
			return nil
		}),
		Proc(2, "BATCHED", func(*Call, *opaque, *xdr.Void) error {
			batched++
			return ErrNoReply
		}),
	}})
	if err != nil {
		return err
	}
	return serveOne(context.Background(), s, p, 100)
}

func callSimulated(p *vmmc.Process) error {
	ctx := context.Background()
	c, conn, err := dialOne(ctx, p, vmmc.Name{Process: 1, ID: 100}, 7, 1, 8000)
	if err != nil {
		return err
	}
	for i, n := range []int{0, 50, 60, 1000, 2999, 3000, 8000, 20000, 1} {
		data := bytes.Repeat([]byte{byte(n), 1, 2}, n)[:n]
		if err := c.Batch(ctx, 2, &opaque{data}); err != nil {
			return fmt.Errorf("batched call of %d bytes: %w", n, err)
		}
		var back opaque
		if err := c.Call(ctx, 1, &opaque{data}, &back); err != nil || !bytes.Equal(back.data, append(data, byte(i+1))) {
			return fmt.Errorf("call of %d bytes: %d, %w", n, len(back.data), err)
		}
	}
	conn.fail(ErrClosed)
	conn.read()
	return nil
}
