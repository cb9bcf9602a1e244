package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

const (
	returnWriters = 2
	returnArea    = 10_000 // of a writer, in the exporter's memory
	returns       = 3
	returnWrites  = 20 // of each writer, to each exporter at the least
)

// TestHostReturns: the host of an exporter, which also maps, ends in the midst of writes,
// without a word, and another one with its address and an exporter comes in its place: at once,
// or when the writers have noticed. Each write ends. One that ends well is in the memory that was
// imported, and none is in that of a later exporter. The writers reach each exporter. In the end
// nothing is left of them.
func TestHostReturns(t *testing.T) {
	seeds(t, 15, func(seed uint64) error {
		s := &returning{network: newNetwork(t, myrinet.Options{Seed: seed}), rng: rand.New(rand.NewPCG(seed, 5)), cfg: mapped()}
		s.cfg.PeerTimeout = 200 * time.Millisecond
		for i := range 1 + returnWriters {
			s.host(i, s.cfg)
		}
		s.Go("hosts", s.run)
		for i := range returnWriters {
			s.Go(fmt.Sprint("writer ", i), func() { s.note(fmt.Sprint("writer ", i), s.write(i)) })
		}
		err := s.World.Run()
		for i := 1; i <= returnWriters; i++ {
			s.note(fmt.Sprint("host ", i), empty(s.hosts[i]))
		}
		return errors.Join(append(s.errs, err)...)
	})
}

// returning is the hosts of that test. What is written has the number of its exporter in its
// upper three bits.
type returning struct {
	*network
	rng    *rand.Rand
	cfg    lanai.Config
	boards [][]byte // of the exporters so far
	killed bool     // the last exporter
	gone   bool     // it has noticed
	over   bool
	wrote  [returnWriters]int // to the last exporter
	failed [returnWriters]int
	errs   []error
}

func (s *returning) note(who string, err error) {
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", who, err))
	}
}

// run has exporters come and go.
func (s *returning) run() {
	defer func() { s.over, s.killed = true, true }()
	for number := range 1 + returns {
		s.killed, s.gone, s.wrote, s.failed = false, false, [returnWriters]int{}, [returnWriters]int{}
		s.Go("exporter", func() { s.note("exporter", s.export()) })
		if !s.each(&s.wrote, returnWrites) {
			s.note(fmt.Sprint("exporter ", number+1), fmt.Errorf("writers have written %d times", s.wrote))
			return
		}
		if number == returns {
			return
		}
		_ = s.Sleep(time.Duration(s.rng.Int64N(int64(3 * time.Millisecond))))
		s.cables[0].Unplug()
		if s.killed = true; s.rng.IntN(2) == 0 && !s.each(&s.failed, 1) {
			s.note(fmt.Sprint("exporter ", number+1), fmt.Errorf("it has ended, writes have failed %d times", s.failed))
			return
		}
		for !s.gone {
			_ = s.Sleep(time.Millisecond)
		}
		s.host(0, s.cfg)
	}
}

// each waits until both writers have counted so far, and reports whether they have.
func (s *returning) each(count *[returnWriters]int, least int) bool {
	for range 20_000 {
		if min(count[0], count[1]) >= least {
			return true
		}
		_ = s.Sleep(time.Millisecond)
	}
	return false
}

// export is an exporter, until its host ends.
func (s *returning) export() error {
	p, err := vmmc.Open(context.Background(), &vmmc.Config{Card: s.hosts[0], Process: returnWriters})
	if err == nil {
		s.boards = append(s.boards, make([]byte, returnWriters*returnArea))
		_, err = p.Export(s.boards[len(s.boards)-1], uint32(len(s.boards)), vmmc.Everybody, nil)
	}
	for err == nil && !s.killed {
		p.Poll()
		err = s.Sleep(100 * time.Microsecond)
	}
	s.gone = true
	if s.over && err == nil {
		p.Close()
	}
	return err
}

// write is a writer: it imports the memory of the exporter that there is, again after each write
// that fails.
func (s *returning) write(i int) error {
	p, err := vmmc.Open(context.Background(), &vmmc.Config{Card: s.hosts[1+i], Process: uint32(i)})
	if err != nil {
		return err
	}
	for err == nil && !s.over {
		if err = s.Sleep(time.Millisecond); err == nil {
			err = s.writeTo(p, i, len(s.boards))
		}
	}
	p.Close()
	return errors.Join(err, s.Sleep(time.Second)) // what they say at the end arrives, or is given up
}

// writeTo imports the memory of an exporter and writes until something fails.
func (s *returning) writeTo(p *vmmc.Process, i, exporter int) error {
	ctx, cancel := s.hosts[1+i].WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	to, err := p.Import(ctx, vmmc.Name{Process: returnWriters, ID: uint32(exporter)})
	if err != nil {
		return nil // it is not there, or not any more
	}
	for k := 0; !s.over; k++ {
		src := bytes.Repeat([]byte{byte(exporter<<5 | k%32)}, 64+k%2*9000)
		long, cancel := s.hosts[1+i].WithTimeout(context.Background(), 10*time.Second)
		err = p.SendMsg(long, src, to.Addr()+vmmc.ProxyAddr(i*returnArea))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a write of %d bytes to exporter %d has no end", len(src), exporter)
		}
		if err != nil {
			s.failed[i]++
			break
		}
		if exporter == len(s.boards) {
			s.wrote[i]++
		}
		if board := s.boards[exporter-1]; len(src) > vmmc.DefaultShort && differ(board[i*returnArea:], src) > 0 {
			return fmt.Errorf("a write of %d bytes to exporter %d has ended, and they are not there", len(src), exporter)
		}
	}
	for number, board := range s.boards {
		for _, v := range board {
			if v != 0 && int(v>>5) != number+1 {
				return fmt.Errorf("what was for exporter %d is in the memory of exporter %d", v>>5, number+1)
			}
		}
	}
	return to.Unimport(context.Background())
}

// TestImporterReturns: the host of an importer ends in the midst of writes, without a word, and
// another one with its address comes in its place. It reaches the exporter, whose host has a line
// to the one that was there before: the first packets of the two are of lines that the other side
// does not know, or no longer.
func TestImporterReturns(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 1})
	cfg := lanai.Config{PeerTimeout: 200 * time.Millisecond}
	memory, over := make([]byte, returnArea), false
	n.host(0, cfg)
	n.Go("exporter", func() {
		n.process(0, 0, func(p *vmmc.Process) error {
			_, err := p.Export(memory, 7, vmmc.Everybody, nil)
			for err == nil && !over {
				p.Poll()
				err = n.Sleep(100 * time.Microsecond)
			}
			return err
		})
	})
	n.Go("importers", func() {
		defer func() { over = true }()
		for life := range 1 + returns {
			n.host(1, cfg)
			p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[1], Process: 1})
			if err == nil {
				err = writeSoon(n, p, memory, byte(life+1), 4*cfg.PeerTimeout)
			}
			if err != nil {
				t.Errorf("life %d of the importer's host: %v", life+1, err)
				return
			}
			if life < returns {
				n.cables[1].Unplug()
			} else {
				p.Close()
			}
		}
	})
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
}

// writeSoon imports the memory that process 0 exports and writes to it, again if that fails, for
// so long at the most.
func writeSoon(n *network, p *vmmc.Process, memory []byte, value byte, within time.Duration) (err error) {
	ctx, cancel := n.hosts[1].WithTimeout(context.Background(), within)
	defer cancel()
	for end := n.Now() + int64(within); n.Now() < end; _ = n.Sleep(time.Millisecond) {
		to, failed := p.Import(ctx, vmmc.Name{ID: 7})
		if err = failed; err != nil {
			continue
		}
		src := bytes.Repeat([]byte{value}, len(memory))
		for range 5 {
			if err = p.SendMsg(ctx, src, to.Addr()); err != nil {
				break
			}
		}
		if err == nil && differ(memory, src) > 0 {
			return fmt.Errorf("what was written is not there")
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("within %v the exporter is not reached: %w", within, err)
}
