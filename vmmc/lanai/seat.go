package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/untaken"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// seat is the state of a process on the card and in the driver. The host's lock guards it.
type seat struct {
	listener
	h      *Card
	self   provider.Identity
	uid    uint32
	port   uint16
	page   *hardware.Page // its doorbell page
	queue  queue
	space  space
	frames *frames         // where it reserves numbers for its memory
	told   untaken.Account // events of other processes that it has not handled
}

// listener receives the card's events for a process: of this operating-system process (process), or
// of another one (guest). The caller of its methods holds the host's lock.
type listener interface {
	tell(e event)
	finished(number uint32, how ending) // a request has ended
	touched()                           // its memory was written
	waiting() int                       // number of requests that wait for a slot
	relation(to ethertype.Addr) relation
}

// sit gives a process its seat. page is shared with the card, or nil. The caller must hold the
// lock.
func (h *Card) sit(s *seat, page *shared.Memory) error {
	if err := h.full(s.self.Process); err != nil {
		return err
	}
	for h.port++; h.port == 0 || h.procs[h.port] != nil; {
		h.port++
	}
	s.port, s.space, s.told = h.port, newSpace(), newTold()
	s.self.Addr = ethertype.Addr{MAC: h.cfg.MAC, Port: s.port}
	s.self.Incarnation = h.prog.birth ^ uint64(s.port)<<48
	var err error
	if s.page, err = h.host.Card.OpenPage(fmt.Sprint("process ", s.self.Process)); err != nil {
		return err
	}
	s.queue = queue{proc: s, page: s.page, mem: s.page.Bytes(), next: 1, words: make([]byte, slots*4)}
	if page != nil {
		s.queue.share(page.Bytes())
	}
	if h.prog.ready {
		err = s.attach()
	}
	if err != nil {
		s.page.Close()
		return err
	}
	h.procs[s.port] = s
	return nil
}

// full returns why the card accepts no further process, or nil. The caller must hold the lock.
func (h *Card) full(process uint32) error {
	switch {
	case h.host.Failed() != nil:
		return h.failure()
	case len(h.procs) >= h.cfg.Processes:
		return fmt.Errorf("lanai: %w for process %d: the card has room for %d (Config.Processes)", hardware.ErrSRAM, process, h.cfg.Processes)
	}
	return nil
}

// attach allocates the process's tables on the card. A process with a shared queue and outgoing
// page table uses as much of the card's memory as others. The caller must hold the lock.
func (s *seat) attach() error {
	q := &s.queue
	sram := s.h.host.Card.SRAM()
	var err error
	if q.blocks[0], err = sram.Alloc("outgoing page table", outgoingSize); err != nil {
		return err
	}
	if q.blocks[1], err = sram.Alloc("TLB", tlbSize); err != nil {
		sram.Free(q.blocks[0])
		return err
	}
	if q.lines == nil {
		q.table = outgoing{mem: q.blocks[0].Data, used: make([]bool, outgoingPages)}
	}
	q.tlb.mem, q.open = q.blocks[1].Data, true
	s.h.prog.procs = append(s.h.prog.procs, q)
	return nil
}

// detach removes the process from the card. The caller must hold the lock.
func (s *seat) detach() {
	h := s.h
	delete(h.procs, s.port)
	if h.far != nil {
		s.queue.open = false
		h.far.leave(s)
		return
	}
	if s.queue.open {
		s.queue.open = false
		h.prog.drop(&s.queue)
		for _, b := range s.queue.blocks {
			h.host.Card.SRAM().Free(b)
		}
	}
	s.page.Close()
	s.space = newSpace()
}

// pages is the driver's part of a TLB miss: it returns how many pages to pin, the missing one and
// those of the process that follow it.
func (s *seat) pages() int {
	last, ok := s.space.extent(s.queue.page0)
	if !ok {
		return 0
	}
	return int(min(last-s.queue.page0+1, refillPages))
}
