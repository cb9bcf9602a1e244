package hardware

import (
	"errors"
	"fmt"
	"slices"
)

// ErrPage is what access beyond a doorbell page gives.
var ErrPage = errors.New("myrinet: access beyond the doorbell page")

// Page is a page of the card's memory that one process of the host writes and reads, by
// programmed I/O. It sees no other, so that what it scribbles harms itself only. The
// control program sees all.
type Page struct {
	c     *Card
	block Block
	open  bool
	rung  bool
}

// pages are a card's doorbell pages.
type pages struct {
	c    *Card
	size int
	open []*Page
	rung []*Page // in the order in which they were
}

func (p *pages) init(c *Card, size int) { p.c, p.size = c, size }

// held returns the memory of the open pages, by where it lies.
func (p *pages) held() (blocks []Block) {
	for _, page := range p.open {
		blocks = append(blocks, page.block)
	}
	slices.SortFunc(blocks, func(a, b Block) int { return a.Offset - b.Offset })
	return blocks
}

// reset forgets who has rung.
func (p *pages) reset() {
	for len(p.rung) > 0 {
		p.next()
	}
}

// next takes the first page off the list of those that were rung.
func (p *pages) next() *Page {
	page := p.rung[0]
	copy(p.rung, p.rung[1:])
	p.rung[len(p.rung)-1] = nil
	p.rung = p.rung[:len(p.rung)-1]
	page.rung = false
	return page
}

// OpenPage gives a process its page. The name is for people. Its error wraps ErrSRAM when
// there is no memory left.
func (c *Card) OpenPage(process string) (*Page, error) {
	b, err := c.sram.Alloc("page of "+process, c.pages.size)
	if err != nil {
		return nil, fmt.Errorf("myrinet: card %s: %w", c.name, err)
	}
	p := &Page{c: c, block: b, open: true}
	c.pages.open = append(c.pages.open, p)
	return p, nil
}

// Close gives the page back. It can be called more than once.
func (p *Page) Close() {
	if !p.open {
		return
	}
	p.open = false
	is := func(q *Page) bool { return q == p }
	p.c.pages.open = slices.DeleteFunc(p.c.pages.open, is)
	p.c.pages.rung = slices.DeleteFunc(p.c.pages.rung, is)
	p.c.sram.Free(p.block)
	p.block.Data = nil
}

// Write is the host's write of data to the page, in words of 32 bits. The host's time is
// charged (Card.TakeDebt). A write beyond the page, or to a closed one, is ErrPage.
func (p *Page) Write(offset int, data []byte) error {
	if err := p.check(offset, len(data)); err != nil {
		return err
	}
	copy(p.block.Data[offset:], data)
	p.c.charge(p.c.timing.pio(len(data), true))
	return nil
}

// Read is the host's read from the page, which costs more than a write.
func (p *Page) Read(offset int, data []byte) error {
	if err := p.check(offset, len(data)); err != nil {
		return err
	}
	copy(data, p.block.Data[offset:])
	p.c.charge(p.c.timing.pio(len(data), false))
	return nil
}

func (p *Page) check(offset, n int) error {
	if offset < 0 || offset > len(p.block.Data)-n {
		return fmt.Errorf("%w: octets %d to %d, it has %d", ErrPage, offset, offset+n, len(p.block.Data))
	}
	return nil
}

// Ring is the host's write of the word that tells the control program to look at the
// page. It allocates nothing while the number of pages does not grow.
func (p *Page) Ring() {
	p.c.stats.Doorbells++
	p.c.charge(p.c.timing.pio(wordSize, true))
	if p.open && !p.rung {
		p.rung = true
		p.c.pages.rung = append(p.c.pages.rung, p)
	}
	p.c.notify()
}

// Bytes is the page as the control program sees it; nil when it is closed.
func (p *Page) Bytes() []byte { return p.block.Data }

// Rung returns the next page the doorbell of which was rung since it was returned last,
// nil for none. It is the control program's.
func (c *Card) Rung() *Page {
	if len(c.pages.rung) == 0 {
		return nil
	}
	return c.pages.next()
}

// Pages returns the open pages, in the order in which they were opened. They are the
// control program's to read, and not to change the list.
func (c *Card) Pages() []*Page { return c.pages.open }

// charge adds to what the host's access has cost it.
func (c *Card) charge(ns int64) {
	c.hostDebt += ns
	c.stats.HostNanos += uint64(ns)
}

// TakeDebt returns how much of its time the host has spent on access to the card since
// the last call, in nanoseconds. Whoever drives the host pays it by sleeping so long in
// virtual time, when it holds no lock. It is 0 without a timing model.
func (c *Card) TakeDebt() (ns int64) {
	ns, c.hostDebt = c.hostDebt, 0
	return ns
}
