package vmmc_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestMember: a process of a job has its rank as number and its job as scope, and knows the
// hosts by rank.
func TestMember(t *testing.T) {
	const size = 3
	w := newWorld(sim.Options{Seed: 1, Loss: 0.05})
	var macs [size]ethertype.MAC
	left := size
	for rank := range size {
		station := w.Station(fmt.Sprint("rank ", rank))
		macs[rank] = station.MAC()
		w.Go(station.String(), func() {
			err := w.member(station, rank, size, macs[:], func() int { return left }, func() { left-- })
			if err != nil {
				w.errs = append(w.errs, fmt.Errorf("rank %d: %w", rank, err))
			}
		})
	}
	check(t, w.run())
}

// member is one rank: it writes its rank to the next one's export.
func (w *world) member(station *sim.Station, rank, size int, macs []ethertype.MAC, left func() int, done func()) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(rank + 1)})
	if err != nil {
		return err
	}
	defer nic.Close()
	m, err := job.Open(bg, &job.Config{Job: "members", Rank: rank, Size: size, NIC: nic, Timeout: time.Minute}, job.Program{Name: "Test", Version: 1})
	if err != nil {
		return err
	}
	p, err := vmmc.Open(context.Background(), &vmmc.Config{Member: m, Logger: quiet})
	if err != nil {
		return err
	}
	hosts := p.Hosts()
	for r, mac := range macs {
		if hosts[r] != mac {
			return fmt.Errorf("host %d is %v, want %v", r, hosts[r], mac)
		}
	}
	if len(hosts) != size || p.Self() != (vmmc.Peer{Node: macs[rank], Process: uint32(rank)}) {
		return fmt.Errorf("%d hosts, self %+v", len(hosts), p.Self())
	}
	buf := make([]byte, 8)
	_, err = p.Export(buf, 1, vmmc.Everybody, nil)
	next := (rank + 1) % size
	if err != nil {
		return err
	}
	i, err := p.Import(bg, vmmc.Name{Node: hosts[next], Process: uint32(next), ID: 1})
	if err == nil {
		err = p.SendMsg(bg, []byte{byte(rank + 1), 0, 0, 0}, i.Addr())
	}
	if err != nil {
		return err
	}
	if got, err := p.WaitWord(bg, vmmc.Word(buf, 0), 0); err != nil || int(got) != (rank+size-1)%size+1 {
		return fmt.Errorf("%d was written: %w", got, err)
	}
	done()
	err = w.serve(p, func() bool { return left() == 0 })
	return errors.Join(err, p.Close(), m.Leave(bg))
}

// TestSBL: SBL's calls count words; asynchronous imports say how they stand.
func TestSBL(t *testing.T) {
	w := newWorld(sim.Options{})
	heard := 0
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		words := make([]uint32, 100)
		if hosts := p.Hosts(); len(hosts) != 1 || hosts[0] != p.Self().Node {
			return fmt.Errorf("without a job the hosts are %v", hosts)
		}
		if err := w.Sleep(10 * time.Millisecond); err != nil { // the import is pending
			return err
		}
		if _, err := (vmmc.SBL{Process: p}).ExportRecvBuf(words, 1, func(vmmc.Notification) { heard++ }); err != nil {
			return err
		}
		if err := w.serve(p, func() bool { return heard == 1 }); err != nil {
			return err
		}
		for i, v := range words {
			if want := uint32(i); i >= 10 && i < 60 && v != want || (i < 10 || i >= 60) && v != 0 {
				return fmt.Errorf("word %d is %d", i, v)
			}
		}
		return nil
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		i := p.ImportStart(vmmc.Name{Process: 1, ID: 1})
		if err := i.Done(); !errors.Is(err, vmmc.ErrPending) || i.Size() != 0 || i.Addr() != 0 {
			return fmt.Errorf("an import that is under way: %w, %d bytes", err, i.Size())
		}
		if err := i.Wait(bg); err != nil || i.Done() != nil || i.Size() != 400 {
			return fmt.Errorf("an import that is made: %w, %d bytes", err, i.Size())
		}
		given := p.ImportStart(vmmc.Name{Process: 1, ID: 77})
		if err := given.Unimport(bg); err != nil || !errors.Is(given.Wait(bg), vmmc.ErrUnimported) {
			return fmt.Errorf("an import that is given up: %w, %w", err, given.Done())
		}
		s := vmmc.SBL{Process: p}
		at, n, err := s.ImportRecvBuf(bg, w.stations[1].MAC(), 1, 1)
		if err != nil || n != 100 {
			return fmt.Errorf("%d words, %w", n, err)
		}
		src := make([]uint32, 100)
		for k := range src {
			src[k] = uint32(k)
		}
		if err := s.SendWords(bg, src[10:30], at+2); !errors.Is(err, vmmc.ErrArgument) {
			return fmt.Errorf("words to no word's address: %w", err)
		}
		if err := s.SendWords(bg, src, at+4); !errors.Is(err, vmmc.ErrProxy) {
			return fmt.Errorf("words past the end: %w", err)
		}
		return errors.Join(s.SendWords(bg, src[10:30], at+40), s.SendWordsWithNotify(bg, src[30:60], at+120))
	})
	check(t, w.run())
}

// TestSpin: in real time, two processes that spin pass a word to and fro.
func TestSpin(t *testing.T) {
	ctx, ps := pair(t)
	const rounds = 20
	ended := make(chan error, 2)
	var bufs [2][]byte
	for me := range ps {
		bufs[me] = make([]byte, 8)
		_, err := ps[me].Export(bufs[me], 1, vmmc.Everybody, nil)
		check(t, err)
	}
	for me, p := range ps {
		go func() {
			i, err := p.Import(ctx, vmmc.Name{Process: uint32(1 - me), ID: 1})
			for k := uint32(0); err == nil && k < rounds; k++ {
				if me == 1 {
					_, err = p.Spin(ctx, vmmc.Word(bufs[me], 0), k)
				}
				if err == nil {
					err = p.SendMsg(ctx, []byte{byte(k + 1), 0, 0, 0}, i.Addr())
				}
				if err == nil && me == 0 {
					_, err = p.Spin(ctx, vmmc.Word(bufs[me], 0), k)
				}
			}
			ended <- err
		}()
	}
	check(t, <-ended)
	check(t, <-ended)
}

// TestAfterEnd: whoever asks hears of an import's end once, whether it was given up, taken back, or
// the exporter's process has ended, and at once where that was before.
func TestAfterEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	p, q := liveProcess(t, 0), liveProcess(t, 1)
	for name, end := range map[string]func(*vmmc.Export, *vmmc.Import) error{
		"given up":   func(_ *vmmc.Export, i *vmmc.Import) error { return i.Unimport(ctx) },
		"unexported": func(e *vmmc.Export, _ *vmmc.Import) error { return e.Unexport(ctx) },
	} {
		e, err := p.Export(make([]byte, 8), 1, vmmc.Everybody, nil)
		check(t, err)
		i, err := q.Import(ctx, vmmc.Name{Process: 0, ID: 1})
		check(t, err)
		told := make(chan error, 2)
		i.AfterEnd(func() { told <- i.Done() })
		check(t, end(e, i))
		for range 2 {
			select {
			case err := <-told:
				if err == nil {
					t.Errorf("%s: told of an import that is of use", name)
				}
			case <-ctx.Done():
				t.Fatalf("%s: told nothing", name)
			}
			i.AfterEnd(func() { told <- i.Done() })
		}
		check(t, e.Unexport(ctx))
	}
}

// TestImportSize: an import costs its two processes together 1 KiB at the most, whatever
// its size; of the pages of the proxy space none has memory.
func TestImportSize(t *testing.T) {
	ctx, ps := pair(t)
	const imports, most = 1000, 1024
	buf := make([]byte, 1<<20)
	_, err := ps[0].Export(buf, 1, vmmc.Everybody, nil)
	check(t, err)
	name := vmmc.Name{Process: 0, ID: 1}
	_, err = ps[1].Import(ctx, name) // with the connection
	check(t, err)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	kept := make([]*vmmc.Import, imports)
	for k := range kept {
		kept[k], err = ps[1].Import(ctx, name)
		check(t, err)
	}
	each := (int64(heap()) - int64(before)) / imports
	t.Logf("%d imports: %d bytes each, at both ends", imports, each)
	if each > most {
		t.Errorf("an import takes %d bytes at both ends, want %d at the most", each, most)
	}
	runtime.KeepAlive(kept)
}

// BenchmarkImport is a warm import: processes are connected, and the export exists. It prints
// what the import takes, without giving it up again, which may be a millisecond at the most.
func BenchmarkImport(b *testing.B) {
	ctx, ps := pair(b)
	_, err := ps[0].Export(make([]byte, 1<<20), 1, vmmc.Everybody, nil)
	if err != nil {
		b.Fatal(err)
	}
	var took time.Duration
	for b.Loop() {
		start := time.Now()
		i, err := ps[1].Import(ctx, vmmc.Name{Process: 0, ID: 1})
		took += time.Since(start)
		if err == nil {
			err = i.Unimport(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "us/import")
}
