package vmmc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestKilled: when the exporter is killed its importers' sends fail with a typed error, and
// an import waits for the one that is started again; when an importer is killed, the lists
// lose it.
func TestKilled(t *testing.T) {
	for name, victim := range map[string]uint32{"exporter": 1, "importer": 2} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(sim.Options{Seed: 5})
			cfg := vmmc.Config{PeerTimeout: 300 * time.Millisecond}
			w.process(1, cfg, func(p *vmmc.Process) error {
				e, err := p.Export(make([]byte, 100000), 1, vmmc.Everybody, nil)
				if err != nil {
					return err
				}
				had := false
				err = w.serve(p, func() bool {
					n := len(e.Importers())
					had = had || n == 1
					return had && n == 0
				})
				if victim == 1 {
					return errDead
				}
				return err
			})
			w.process(2, cfg, func(p *vmmc.Process) error {
				i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
				if err != nil {
					return err
				}
				at := w.Now() + int64(100*time.Microsecond)
				w.At(at, func() { w.Kill(w.stations[victim]) })
				for err == nil {
					err = p.SendMsg(bg, make([]byte, 50000), i.Addr())
				}
				if victim == 2 {
					return errDead
				}
				if !errors.Is(err, vmmc.ErrPeer) || !errors.Is(i.Done(), vmmc.ErrPeer) {
					return fmt.Errorf("a send to a process that was killed: %w", err)
				}
				if err := p.SendMsg(bg, nil, i.Addr()); !errors.Is(err, vmmc.ErrPeer) {
					return fmt.Errorf("the next one: %w", err)
				}
				return nil
			})
			check(t, w.run())
		})
	}
}

// TestNextExporter: an import that waits for an export waits on when the process ends, and
// is made by the one that is started in its place.
func TestNextExporter(t *testing.T) {
	for _, end := range []string{"killed", "closed"} {
		for _, start := range []bool{false, true} {
			t.Run(fmt.Sprint(end, ", asynchronous ", start), func(t *testing.T) {
				w := newWorld(sim.Options{Seed: 6, Loss: 0.1})
				cfg := vmmc.Config{PeerTimeout: 300 * time.Millisecond}
				ended := false
				w.process(1, cfg, func(p *vmmc.Process) error {
					if err := w.serve(p, func() bool { return p.Snapshot().Asked == 1 }); err != nil {
						return err
					}
					if end == "killed" {
						w.Kill(w.stations[1])
					}
					p.Close()
					ended = true
					return errDead
				})
				buf := make([]byte, 64)
				w.processAt(w.Station("process 1 again"), 1, func() bool { return ended }, cfg, func(p *vmmc.Process) error {
					if err := w.Sleep(2 * time.Second); err != nil {
						return err
					}
					if _, err := p.Export(buf, 7, vmmc.Everybody, nil); err != nil {
						return err
					}
					_, err := p.WaitWord(bg, vmmc.Word(buf, 0), 0)
					return err
				})
				w.process(2, cfg, func(p *vmmc.Process) (err error) {
					var i *vmmc.Import
					if name := (vmmc.Name{Process: 1, ID: 7}); start {
						i = p.ImportStart(name)
						err = i.Wait(bg)
					} else {
						i, err = p.Import(bg, name)
					}
					if err != nil {
						return err
					}
					return p.SendMsg(bg, []byte{1, 2, 3, 4}, i.Addr())
				})
				check(t, w.run())
			})
		}
	}
}

// TestHostile: a program that speaks the wire without the library, with a connection of its
// own, reaches nothing: what it says beside the protocol ends its connection and nobody
// else's, and writes by forged handles change nothing.
func TestHostile(t *testing.T) {
	w := newWorld(sim.Options{Seed: 4})
	attacks := 0
	buf := make([]byte, 4096)
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		e, err := p.Export(buf, 1, vmmc.Policy{Processes: []vmmc.Peer{{Process: 2}}}, nil)
		if err != nil {
			return err
		}
		if err := w.serve(p, func() bool { return attacks == 60 }); err != nil {
			return err
		}
		for i, b := range buf[64:] {
			if b != 0 {
				return fmt.Errorf("byte %d was written", 64+i)
			}
		}
		if n := len(e.Importers()); n != 1 {
			return fmt.Errorf("%d importers are left, want the honest one", n)
		}
		if s := p.Snapshot().Stats; s.Violations+s.Broken == 0 {
			return errors.New("nothing was counted")
		}
		return nil
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		for err == nil && attacks < 60 {
			if err = p.SendMsg(bg, []byte{1, 2, 3, 4}, i.Addr()); err == nil {
				p.Poll()
				err = w.Sleep(time.Millisecond)
			}
		}
		return err
	})
	station := w.Station("hostile")
	w.Go("hostile", func() {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: station, Seed: 9})
		if err != nil {
			w.errs = append(w.errs, err)
			return
		}
		defer nic.Close()
		for k := range 60 {
			if err := attack(nic, k, vipl.VirtualAddress(buf)); err != nil {
				w.errs = append(w.errs, fmt.Errorf("attack %d: %w", k, err))
			}
			attacks++
		}
	})
	check(t, w.run())
}

// attack makes one connection and misuses it.
func attack(nic *vipl.NIC, k int, target uint64) error {
	addr, err := nic.Lookup(bg, "vmmc//1")
	if err != nil {
		return err
	}
	vi, err := nic.CreateVI(vipl.DefaultAttributes(), nil, nil)
	if err != nil {
		return err
	}
	defer vi.Close()
	mem, h, err := nic.AllocMem(4096, nil)
	if err != nil {
		return err
	}
	defer nic.DeregisterMem(h)
	for i := range 8 {
		if err := vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: mem[256*(i+1):][:256], Handle: h}}}); err != nil {
			return err
		}
	}
	hello := append([]byte("VMC3"), 0, 0, 0, 2, byte(k), 77, 0, 0, 0, 0, 0, 0, 0, byte(k), 0, 0, 0, 1)
	if err := vi.Connect(bg, ethertype.Addr{MAC: addr.MAC, Port: addr.Port}, hello); err != nil {
		return err
	}
	d := &vipl.Descriptor{Segs: []vipl.Segment{{Data: pattern(mem[:176], k)[:1+k*3%176], Handle: h}}}
	switch k % 3 {
	case 0:
		d.Op, d.Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: target + 64 + uint64(k), Handle: vipl.MemHandle(1<<20 | k)}
	case 1:
		d.Op, d.HasImmediate, d.Immediate, d.Segs = vipl.OpRDMAWrite, true, uint32(k), nil
	default:
		mem[0] = byte(k % 13)
	}
	if err := vi.PostSend(d); err != nil {
		return err
	}
	ctx, cancel := nic.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	_, _ = vi.SendWait(ctx)
	return nil
}

// TestAllocations: a send, and a notification with its handler, allocate nothing.
func TestAllocations(t *testing.T) {
	w := newWorld(sim.Options{})
	allocs := map[string]float64{}
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf := make([]byte, 1<<16)
		seen := 0
		if _, err := p.Export(buf, 1, vmmc.Everybody, func(vmmc.Notification) { seen++ }); err != nil {
			return err
		}
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		if err != nil {
			return err
		}
		src := make([]byte, 4096)
		s := &vmmc.Send{Src: src, Dst: i.Addr() + 32768}
		var fails error
		for name, op := range map[string]func() error{
			"short": func() error { return p.SendMsg(bg, src[:64], i.Addr()+8192) },
			"posted": func() error {
				if err := p.Post(s); err != nil {
					return err
				}
				return p.WaitSend(bg, s)
			},
			"notified": func() error {
				before := seen
				err := p.SendMsgWithNotify(bg, src[:8], i.Addr()+8192)
				for err == nil && seen == before {
					p.Poll()
				}
				return err
			},
		} {
			run := func() {
				if err := op(); err != nil {
					fails = err
				}
				p.Poll()
			}
			many := func() { // with the credits that go back now and then
				for range 320 {
					run()
				}
			}
			many()
			allocs[name] = testing.AllocsPerRun(1, many)
		}
		return fails
	})
	check(t, w.run())
	for name, n := range allocs {
		if n >= 1 {
			t.Errorf("%s: %v allocations in 320", name, n)
		}
	}
}

// TestInterfaceGone: a process that waits for a notification, a word or an import ends its waits
// when its interface is gone.
func TestInterfaceGone(t *testing.T) {
	pair := vethtest.New(t, 1500)
	var nic *vipl.NIC
	check(t, pair.In(0, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
		return err
	}))
	defer nic.Close()
	p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Job: scopeOf(t), Logger: quiet})
	check(t, err)
	defer p.Close()
	ended := make(chan error)
	go func() { ended <- p.WaitNotification(bg) }()
	go func() { _, err := p.Spin(bg, new(uint32), 0); ended <- err }()
	go func() { ended <- p.Await(bg, func() bool { return false }) }()
	go func() { _, err := p.Import(bg, vmmc.Name{Process: 9, ID: 1}); ended <- err }()
	check(t, pair.Delete())
	for range 4 {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
}

// TestLastWords: what a process has posted before it was closed is in the exporter's memory, and
// its handler has run for each message, although the network loses some of them, and although
// they are more than there is room for at once. vmmc/lanai has the same for cards.
func TestLastWords(t *testing.T) {
	const messages = 40
	seeds(t, 10, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.02})
		w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
			heard := 0
			_, err := p.Export(make([]byte, messages*8), 1, vmmc.Everybody, func(vmmc.Notification) { heard++ })
			if err != nil {
				return err
			}
			ctx, cancel := p.NIC().WithTimeout(bg, 10*time.Second)
			defer cancel()
			return p.Await(ctx, func() bool { return heard == messages })
		})
		w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
			to, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
			for i := 0; err == nil && i < messages; i++ {
				err = p.Post(&vmmc.Send{Src: []byte{1, 2, 3, 4, 5, 6, 7, 8}, Dst: to.Addr() + vmmc.ProxyAddr(i*8), Notify: true})
			}
			p.Close()
			return err
		})
		return w.run()
	})
}

// scopeOf is a scope of this run of the test alone: shared memory is one segment for all of the host.
func scopeOf(t testing.TB) string { return fmt.Sprint(t.Name(), os.Getpid()) }

// liveProcess returns a process over shared memory, in real time.
func liveProcess(t *testing.T, number uint32) *vmmc.Process {
	t.Helper()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
	check(t, err)
	t.Cleanup(func() { nic.Close() })
	p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: number, Job: scopeOf(t), Logger: quiet})
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestComputing: in real time, handlers run and imports are granted while the exporter's
// program does nothing at all; unexport works beside a program that waits.
func TestComputing(t *testing.T) {
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	var ps [2]*vmmc.Process
	for i := range ps {
		ps[i] = liveProcess(t, uint32(i))
	}
	told := make(chan uint32, 100)
	buf := make([]byte, 100000)
	e, err := ps[0].Export(buf, 1, vmmc.Everybody, func(vmmc.Notification) {
		told <- atomic.LoadUint32(vmmc.Word(buf, len(buf)-vmmc.WordSize)) // the next message may be writing it
	})
	check(t, err)
	i, err := ps[1].Import(ctx, vmmc.Name{Process: 0, ID: 1})
	check(t, err)
	src := make([]byte, len(buf))
	for k := range uint32(20) {
		binary.NativeEndian.PutUint32(src[len(src)-vmmc.WordSize:], k+1)
		check(t, ps[1].SendMsgWithNotify(ctx, src, i.Addr()))
		select {
		case got := <-told:
			if got != k+1 {
				t.Fatalf("notification %d finds %d", k, got)
			}
		case <-ctx.Done():
			t.Fatal("no handler has run")
		}
	}
	check(t, e.Unexport(ctx))
	if err := ps[1].SendMsg(ctx, src[:8], i.Addr()); err == nil {
		t.Error("a send to what is not exported any more")
	}
}
