package paper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// vmmcRounds is the number of messages that are counted for each size.
const vmmcRounds = 20

// vmmcSide is a process on one of two cards that run VMMC's control program. As in the paper,
// packets with CRC errors are dropped.
type vmmcSide struct {
	ctx   context.Context
	w     *sim.World
	model *vmmcModel
	p     *vmmc.Process
	side  int
	buf   []byte         // exported
	src   []byte         // source of sent data
	to    vmmc.ProxyAddr // the other side's buffer
}

// vmmcModel is the hardware of the paper, and the times that its hosts' processors take.
type vmmcModel struct {
	timing *myrinet.Timing
	costs  lanai.Costs
	serial bool          // without pipelining
	send   time.Duration // time of a send, in addition to the words that it writes to the card
	call   time.Duration // time of the routines of both hosts in a remote procedure call
	bcopy  float64       // rate of long copies, bytes per second
}

func newVMMCModel() *vmmcModel {
	return &vmmcModel{timing: myrinet.PCITiming(), costs: lanai.DefaultCosts(), send: 2400, call: 40 * time.Microsecond, bcopy: 50e6}
}

// run runs body on both sides, with messages of size bytes. short is the maximum length of a
// message that is copied into its request.
func (m *vmmcModel) run(ctx context.Context, size, short int, body func(s *vmmcSide) error) error {
	w := sim.New(sim.Options{Seed: 1, Limit: time.Hour})
	f, err := myrinet.New(w, myrinet.Options{Seed: 1})
	if err != nil {
		return err
	}
	var ports [2]*myrinet.Port
	var errs [2]error
	left := 2
	mac := func(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 3, byte(i)} }
	virtual := myrinet.Virtual{World: w, Waiter: func() myrinet.Waiter { return w.Waiter() }}
	for i := range ports {
		cfg := lanai.Config{Drop: true, MAC: mac(i), Routes: []myrinet.HostRoute{{To: mac(1 - i)}}, Card: myrinet.CardConfig{Timing: m.timing}, Costs: &m.costs, Serial: m.serial}
		host, err := lanai.NewVirtual(virtual, func(h myrinet.Host) *myrinet.Port {
			ports[i] = f.Host(fmt.Sprint("card ", i), h)
			return ports[i]
		}, &cfg)
		if err != nil {
			return err
		}
		w.Go(fmt.Sprint("process ", i), func() {
			s := &vmmcSide{ctx: ctx, w: w, model: m, side: i, buf: pages(size), src: pages(size)}
			errs[i] = s.exportAndImport(host, short)
			if errs[i] == nil {
				errs[i] = body(s)
			}
			for left--; left > 0 && errs[0] == nil && errs[1] == nil; {
				if w.Sleep(time.Millisecond) != nil {
					break
				}
			}
			if s.p != nil {
				errs[i] = errors.Join(errs[i], s.p.Close())
			}
		})
	}
	if _, err := f.Join(ports[0], ports[1]); err != nil {
		return err
	}
	return errors.Join(w.Run(), errs[0], errs[1])
}

// pages returns size bytes that occupy the same pages in every run: Go aligns large objects to
// pages.
func pages(size int) []byte { return make([]byte, size, max(size, 1<<16)) }

// exportAndImport makes each side export its buffer and import the other side's buffer.
func (s *vmmcSide) exportAndImport(host *lanai.Card, short int) (err error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if s.p, err = vmmc.Open(context.Background(), &vmmc.Config{Card: host, Process: uint32(s.side), Short: short, Logger: quiet}); err != nil {
		return err
	}
	if _, err := s.p.Export(s.buf, 1, vmmc.Everybody, nil); err != nil {
		return err
	}
	i, err := s.p.Import(s.ctx, vmmc.Name{Process: uint32(1 - s.side), ID: 1})
	if err != nil {
		return err
	}
	s.to = i.Addr()
	return nil
}

// send sends message n, whose last word is n. It charges the host for its writes to the card.
func (s *vmmcSide) send(n uint32) error {
	binary.NativeEndian.PutUint32(s.src[len(s.src)-vmmc.WordSize:], n)
	if err := s.w.Sleep(s.model.send); err != nil {
		return err
	}
	err := s.p.SendMsg(s.ctx, s.src, s.to)
	s.p.Poll()
	return err
}

// take waits for message n.
func (s *vmmcSide) take(n uint32) error {
	word := vmmc.Word(s.buf, len(s.buf)-vmmc.WordSize)
	for atomic.LoadUint32(word) != n {
		if _, err := s.p.Spin(s.ctx, word, n-1); err != nil {
			return err
		}
	}
	return nil
}

// exchange makes both sides send, alternately or at the same time, and returns the time of a round
// in microseconds. The first rounds fill the TLB and do not count.
func (m *vmmcModel) exchange(ctx context.Context, size, short int, together bool) (round float64, err error) {
	return m.rounds(ctx, size, short, func(s *vmmcSide, n uint32) error {
		first, second := s.send, s.take
		if s.side == 1 && !together {
			first, second = s.take, s.send
		}
		return errors.Join(first(n), second(n))
	})
}

// calls makes one side call a procedure that returns its argument, as in vRPC: one message in each
// direction, into the memory of its reader, which copies the message. It returns the time of a call
// with n bytes of argument.
func (m *vmmcModel) calls(ctx context.Context, n int) (us float64, err error) {
	const header = 40 // header of an ONC RPC call without credentials
	return m.rounds(ctx, header+n, vmmc.DefaultShort, func(s *vmmcSide, k uint32) error {
		first, second := s.send, s.receive
		if s.side == 1 {
			first, second = s.receive, s.send
		}
		return errors.Join(first(k), second(k))
	})
}

// receive takes a message and copies it. It charges the host for the copy and for its half of the
// routines.
func (s *vmmcSide) receive(n uint32) error {
	if err := s.take(n); err != nil {
		return err
	}
	copied := time.Duration(float64(len(s.buf)) / s.model.bcopy * 1e9)
	return s.w.Sleep(s.model.call/2 + copied)
}

// rounds returns the time of a round in microseconds. The first rounds fill the TLB and do not
// count.
func (m *vmmcModel) rounds(ctx context.Context, size, short int, round func(s *vmmcSide, n uint32) error) (us float64, err error) {
	const warm = 3
	err = m.run(ctx, size, short, func(s *vmmcSide) error {
		var began int64
		for n := range uint32(warm + vmmcRounds) {
			if n == warm {
				began = s.w.Now()
			}
			if err := round(s, n+1); err != nil {
				return err
			}
		}
		if s.side == 0 {
			us = micro(time.Duration(s.w.Now()-began)) / vmmcRounds
		}
		return nil
	})
	return us, err
}

// cold returns how long the first message takes, when no page of the message is in the TLB.
func (m *vmmcModel) cold(ctx context.Context, size int) (us float64, err error) {
	err = m.run(ctx, size, vmmc.DefaultShort, func(s *vmmcSide) error {
		if s.side == 1 {
			return s.take(1)
		}
		began := s.w.Now()
		err := s.send(1)
		us = micro(time.Duration(s.w.Now() - began))
		return err
	})
	return us, err
}

// overhead returns how long a call to send blocks its caller, in microseconds, when nothing else is
// in flight.
func (m *vmmcModel) overhead(ctx context.Context, size int, synchronous bool) (us float64, err error) {
	err = m.run(ctx, size, vmmc.DefaultShort, func(s *vmmcSide) error {
		const warm = 3
		for n := range warm + vmmcRounds {
			if s.side == 1 {
				return nil
			}
			if err := s.w.Sleep(time.Millisecond); err != nil {
				return err
			}
			began := s.w.Now()
			post := vmmc.Send{Src: s.src, Dst: s.to}
			if synchronous {
				err = s.send(1)
			} else {
				err = s.post(&post)
			}
			if n >= warm {
				us += micro(time.Duration(s.w.Now()-began)) / vmmcRounds
			}
			if err == nil && !synchronous {
				err = s.p.WaitSend(s.ctx, &post)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return us, err
}

// post posts a send, and charges the host for its work.
func (s *vmmcSide) post(send *vmmc.Send) error {
	if err := s.w.Sleep(s.model.send); err != nil {
		return err
	}
	err := s.p.Post(send)
	s.p.Poll()
	return err
}
