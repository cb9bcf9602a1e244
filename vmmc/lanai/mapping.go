package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
)

// mappingProgram is a control program that only maps, like the mapping program of the paper,
// section 4.3. When it has found routes, or has found that there is no other host, the driver loads
// VMMC's program, which continues to map. So it also finds nodes that join later; the paper's must
// be restarted for that.
type mappingProgram struct {
	c *hardware.Card
	h *Card
}

// Load implements hardware.Program.
func (p *mappingProgram) Load(c *hardware.Card) error {
	p.c = c
	if err := p.h.maps.Alloc(c.SRAM()); err != nil {
		return err
	}
	for range leastRecv {
		b, err := c.SRAM().Alloc("packets in", station.MapperRoom)
		if err != nil {
			return err
		}
		c.Post(b.Data)
	}
	return nil
}

// Step implements hardware.Program.
func (p *mappingProgram) Step(now int64) (next int64) {
	p.h.enter()
	defer p.h.leave()
	for r, ok := p.c.Receive(); ok; r, ok = p.c.Receive() {
		p.h.maps.Receive(now, &r)
		p.c.Post(r.Buffer)
	}
	p.h.maps.Poll(now)
	if p.h.onlyHost() && !p.h.load {
		p.h.mapped(nil)
	}
	if !p.c.Sending() && !p.h.host.Holds() {
		p.h.maps.Send(p.c, now, false, 0)
	}
	return p.h.maps.Next(now)
}

// onlyHost reports whether the mapper has completed a map without other hosts.
func (h *Card) onlyHost() bool {
	s := h.maps.Snapshot()
	return s.Leading && s.Map != nil && len(s.Map.IDs) == 1
}
