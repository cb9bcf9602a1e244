package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
)

// mappingProgram is a control program that maps, and nothing else: the mapping program of the
// paper, section 4.3. When it has found routes, or has looked everywhere and there is no
// other host, the driver loads VMMC's, which goes on mapping beside its work: nodes that come
// later are found, too, where the paper has to be started again.
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

// onlyHost reports whether the mapper has looked everywhere, and there is no other host.
func (h *Card) onlyHost() bool {
	s := h.maps.Snapshot()
	return s.Leading && s.Map != nil && len(s.Map.IDs) == 1
}
