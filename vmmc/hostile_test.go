package vmmc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// intruder is a program that speaks the wire without the library: one connection, on which
// it may have imported something as the library would.
type intruder struct {
	nic *vipl.NIC
	vi  *vipl.VI
	mem []byte
	h   vipl.MemHandle
	got struct { // the grant
		slot, key uint32
		addr      uint64
		size      uint64
	}
}

// What it says and hears; see the wire of package via.
const (
	wireAsk, wireGrant, wireDeny, wireReleased = 2, 4, 5, 7
	wireSlot                                   = 176 // bytes of a receive
)

func intrude(nic *vipl.NIC, k int) (*intruder, error) {
	addr, err := nic.Lookup(bg, "vmmc//1")
	if err != nil {
		return nil, err
	}
	x := &intruder{nic: nic}
	if x.mem, x.h, err = nic.AllocMem(1<<14, nil); err != nil {
		return nil, err
	}
	if x.vi, err = nic.CreateVI(vipl.DefaultAttributes(), nil, nil); err != nil {
		return nil, err
	}
	for i := range 16 {
		if err := x.vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: x.mem[8192+wireSlot*i:][:wireSlot], Handle: x.h}}}); err != nil {
			return nil, err
		}
	}
	hello := append([]byte("VMC3"), 0, 0, 0, 2, byte(k), 99, 0, 0, 0, 0, 0, 0, 1, byte(k), 0, 0, 0, 1)
	return x, x.vi.Connect(bg, addr, hello)
}

func (x *intruder) close() {
	x.vi.Close()
	x.nic.DeregisterMem(x.h)
}

// post posts a descriptor and waits a moment for its end.
func (x *intruder) post(d *vipl.Descriptor) error {
	if err := x.vi.PostSend(d); err != nil {
		return err
	}
	ctx, cancel := x.nic.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	_, err := x.vi.SendWait(ctx)
	return err
}

func (x *intruder) say(kind byte, numbers ...uint32) error {
	b := append(x.mem[:0], kind, 0, 0)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	if kind == wireAsk {
		b = append(b, make([]byte, 16)...) // no ticket
	}
	return x.post(&vipl.Descriptor{Segs: []vipl.Segment{{Data: b, Handle: x.h}}})
}

// hears waits for a message of a kind.
func (x *intruder) hears(kind byte) ([]byte, error) {
	for {
		ctx, cancel := x.nic.WithTimeout(bg, time.Second)
		d, err := x.vi.RecvWait(ctx)
		cancel()
		if err != nil {
			return nil, err
		}
		if b := d.Segs[0].Data[:d.Length]; b[0] == kind {
			return b[3:], nil
		}
	}
}

// imports asks for an export and takes in the grant.
func (x *intruder) imports(id uint32) error {
	if err := x.say(wireAsk, 1, id); err != nil {
		return err
	}
	b, err := x.hears(wireGrant)
	if err != nil {
		return err
	}
	be := binary.BigEndian
	x.got.slot, x.got.addr, x.got.key, x.got.size = be.Uint32(b[4:]), be.Uint64(b[8:]), be.Uint32(b[16:]), be.Uint64(b[20:])
	return nil
}

// write writes n bytes that are not zero.
func (x *intruder) write(addr uint64, key uint32, n int) error {
	for i := range x.mem[:n] {
		x.mem[i] = 0xBA
	}
	return x.post(&vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: []vipl.Segment{{Data: x.mem[:n], Handle: x.h}},
		Remote: vipl.RemoteSegment{Addr: addr, Handle: vipl.MemHandle(key)}})
}

// intrusions are what an intruder does with an import of export 1, which the next one,
// export 2, lies right behind. Each is to fail. unexport has the exporter take export 3
// back.
var intrusions = map[string]func(x *intruder, unexport func()) error{
	"past the end":            func(x *intruder, _ func()) error { return x.write(x.got.addr+x.got.size-4, x.got.key, 8) },
	"behind the end":          func(x *intruder, _ func()) error { return x.write(x.got.addr+x.got.size, x.got.key, 8) },
	"before the start":        func(x *intruder, _ func()) error { return x.write(x.got.addr-4, x.got.key, 8) },
	"across exports":          func(x *intruder, _ func()) error { return x.write(x.got.addr, x.got.key, 8000) },
	"a forged handle":         func(x *intruder, _ func()) error { return x.write(x.got.addr, x.got.key^1, 8) },
	"a handle of later":       func(x *intruder, _ func()) error { return x.write(x.got.addr, x.got.key+1, 8) },
	"at the end of addresses": func(x *intruder, _ func()) error { return x.write(^uint64(0)-3, x.got.key, 8) },
	"after its own release": func(x *intruder, _ func()) error {
		if err := x.say(wireReleased, x.got.slot); err != nil {
			return nil
		}
		return x.write(x.got.addr, x.got.key, 8)
	},
	"what the policy refuses": func(x *intruder, _ func()) error {
		addr, key := x.got.addr, x.got.key
		if err := x.say(wireAsk, 2, 2); err != nil {
			return nil
		}
		if _, err := x.hears(wireDeny); err != nil {
			return nil
		}
		return x.write(addr+4096, key, 8)
	},
	"after Unexport, of which it has heard": func(x *intruder, unexport func()) error {
		if err := x.imports(3); err != nil {
			return nil
		}
		unexport()
		return x.write(x.got.addr, x.got.key, 8)
	},
}

// TestIntruder: who has an import by the rules, and then writes beside it without the
// library, changes nothing. The owner refuses, counts, and goes on serving others.
func TestIntruder(t *testing.T) {
	for name, intrusion := range intrusions {
		t.Run(name, func(t *testing.T) {
			w := &intruded{world: newWorld(sim.Options{Seed: 8}), arena: make([]byte, 5*4096)}
			w.process(1, vmmc.Config{PeerTimeout: 200 * time.Millisecond}, w.owner)
			w.process(2, vmmc.Config{}, w.honest)
			station := w.Station("intruder")
			w.Go("intruder", func() {
				if err := w.intrude(station, intrusion); err != nil {
					w.errs = append(w.errs, err)
				}
				w.done = true
			})
			check(t, w.run())
		})
	}
}

// intruded is the world of TestIntruder.
type intruded struct {
	*world
	arena               []byte // of the owner's exports
	done, wanted, given bool   // the intruder has ended; export 3 is to be taken back, and was
}

func (w *intruded) owner(p *vmmc.Process) (err error) {
	var exports [4]*vmmc.Export
	for id, policy := range []vmmc.Policy{1: vmmc.Everybody, 2: {Nodes: []ethertype.MAC{w.stations[2].MAC()}}, 3: vmmc.Everybody} {
		if id > 0 && err == nil {
			exports[id], err = p.Export(w.arena[id*4096:][:4096], uint32(id), policy, nil)
		}
	}
	if err := errors.Join(err, w.serve(p, func() bool { return w.wanted || w.done })); err != nil {
		return err
	}
	if w.wanted {
		err, left, s := exports[3].Unexport(bg), len(exports[3].Importers()), p.Snapshot().Stats
		if err != nil || left != 0 || s.Forced != 1 {
			return fmt.Errorf("unexport: %w, %d importers, %+v", err, left, s)
		}
		w.given = true
	}
	if err := w.serve(p, func() bool { return w.done }); err != nil {
		return err
	}
	if i := bytes.IndexByte(w.arena, 0xBA); i >= 0 {
		return fmt.Errorf("byte %d was written", i)
	}
	if s := p.Snapshot().Stats; s.Violations+s.Broken == 0 {
		return errors.New("nothing was counted")
	}
	return nil
}

// honest writes to export 2 all the time.
func (w *intruded) honest(p *vmmc.Process) error {
	i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 2})
	for over := false; err == nil && !over; {
		over = w.done // once more after that
		if err = p.SendMsg(bg, []byte{1, 2, 3, 4}, i.Addr()); err == nil {
			p.Poll()
			err = w.Sleep(time.Millisecond)
		}
	}
	return err
}

func (w *intruded) intrude(station *sim.Station, intrusion func(*intruder, func()) error) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: 9})
	if err != nil {
		return err
	}
	defer nic.Close()
	x, err := intrude(nic, 1)
	if err == nil {
		err = x.imports(1)
	}
	if err != nil {
		return err
	}
	defer x.close()
	if err := intrusion(x, func() {
		for w.wanted = true; !w.given && w.Sleep(time.Millisecond) == nil; {
		}
	}); err == nil {
		return errors.New("it was not refused, or not tried")
	}
	return nil
}

// TestGreedyStation: a station whose processes connect as often as they can leaves connections for others.
func TestGreedyStation(t *testing.T) {
	w := newWorld(sim.Options{})
	greedy, done := false, false
	w.process(1, vmmc.Config{MaxConnections: 5}, func(p *vmmc.Process) error {
		if _, err := p.Export(make([]byte, 64), 7, vmmc.Everybody, nil); err != nil {
			return err
		}
		if err := w.serve(p, func() bool { return done }); err != nil {
			return err
		}
		if n := p.Snapshot().Stats.Strangers; n != 1 {
			return fmt.Errorf("%d connections were refused, want 1", n)
		}
		return nil
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		defer func() { greedy = true }()
		for k := range 4 {
			_, err := intrude(p.NIC(), k)
			if refused := errors.Is(err, vipl.ErrReject); refused != (k == 3) || err != nil && !refused {
				return fmt.Errorf("connection %d of a station: %w, want it to be refused if it is the fourth", k+1, err)
			}
		}
		return nil
	})
	w.process(3, vmmc.Config{}, func(p *vmmc.Process) error {
		defer func() { done = true }()
		for !greedy {
			if err := w.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		_, err := p.Import(bg, vmmc.Name{Process: 1, ID: 7})
		return err
	})
	check(t, w.run())
}
