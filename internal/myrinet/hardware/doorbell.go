package hardware

import (
	"errors"
	"fmt"
	"slices"
)

// ErrPage means access outside the doorbell page.
var ErrPage = errors.New("myrinet: access beyond the doorbell page")

// Page is a page of the card's memory that one process of the host accesses by programmed I/O. The
// process sees no other page, so it can harm only itself. The control program sees all pages.
type Page struct {
	c     *Card
	block Block
	open  bool
	rung  bool
}

// pages holds a card's doorbell pages.
type pages struct {
	c    *Card
	size int
	open []*Page
	rung []*Page // in the order of their rings
}

func (p *pages) init(c *Card, size int) { p.c, p.size = c, size }

// held returns the memory of the open pages, in the order of addresses.
func (p *pages) held() (blocks []Block) {
	for _, page := range p.open {
		blocks = append(blocks, page.block)
	}
	slices.SortFunc(blocks, func(a, b Block) int { return a.Offset - b.Offset })
	return blocks
}

// reset forgets all pending rings.
func (p *pages) reset() {
	for len(p.rung) > 0 {
		p.next()
	}
}

// next removes and returns the first rung page.
func (p *pages) next() *Page {
	page := p.rung[0]
	copy(p.rung, p.rung[1:])
	p.rung[len(p.rung)-1] = nil
	p.rung = p.rung[:len(p.rung)-1]
	page.rung = false
	return page
}

// OpenPage allocates the page of a process, which is a name for reports. The error wraps ErrSRAM if
// the memory does not suffice.
func (c *Card) OpenPage(process string) (*Page, error) {
	b, err := c.sram.Alloc("page of "+process, c.pages.size)
	if err != nil {
		return nil, fmt.Errorf("myrinet: card %s: %w", c.name, err)
	}
	p := &Page{c: c, block: b, open: true}
	c.pages.open = append(c.pages.open, p)
	return p, nil
}

// Close frees the page. Further calls have no effect.
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

// Write writes data to the page by programmed I/O, in words of 32 bits, and charges the host's time
// (Card.TakeDebt). The error is ErrPage if the page is closed or too short.
func (p *Page) Write(offset int, data []byte) error {
	if err := p.check(offset, len(data)); err != nil {
		return err
	}
	copy(p.block.Data[offset:], data)
	p.c.charge(p.c.timing.pio(len(data), true))
	return nil
}

// Read reads from the page by programmed I/O. It costs more than a write.
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
		return fmt.Errorf("%w: bytes %d to %d, it has %d", ErrPage, offset, offset+n, len(p.block.Data))
	}
	return nil
}

// Ring rings the doorbell: the host writes the word that tells the control program to look at the
// page. It allocates only when the number of pages grows.
func (p *Page) Ring() {
	p.c.stats.Doorbells++
	p.c.charge(p.c.timing.pio(wordSize, true))
	if p.open && !p.rung {
		p.rung = true
		p.c.pages.rung = append(p.c.pages.rung, p)
	}
	p.c.notify()
}

// Bytes returns the page as the control program sees it, or nil if it is closed.
func (p *Page) Bytes() []byte { return p.block.Data }

// Rung returns the next page whose doorbell has rung since Rung last returned it, or nil. Only the
// control program calls it.
func (c *Card) Rung() *Page {
	if len(c.pages.rung) == 0 {
		return nil
	}
	return c.pages.next()
}

// Pages returns the open pages in the order of opening. The control program may read the list and
// must not change it.
func (c *Card) Pages() []*Page { return c.pages.open }

// charge adds ns to the time that the host has spent accessing the card.
func (c *Card) charge(ns int64) {
	c.hostDebt += ns
	c.stats.HostNanos += uint64(ns)
}

// TakeDebt returns the time in nanoseconds that the host has spent accessing the card since the
// last call. Whoever drives the host sleeps that long in virtual time when it holds no lock. It is
// 0 without a timing model.
func (c *Card) TakeDebt() (ns int64) {
	ns, c.hostDebt = c.hostDebt, 0
	return ns
}
