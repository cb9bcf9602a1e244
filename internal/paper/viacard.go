package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
)

// viaProgram is a VIA control program. It polls the doorbells for sends of all VIs in turn, and
// serves the posted sends. When no doorbell has been rung, it serves an arrived packet. It does one
// thing at a time.
//
// For a send, the program fetches the descriptor from the host's memory, then the data. Then it
// sends the packet and writes the descriptor's status. For an arrived packet, it fetches the
// descriptor of the receive that was posted first. As in the paper, it does this when the packet
// arrives. It transfers the data to the host's memory, then writes the descriptor's status. The
// costs represent its work.
type viaProgram struct {
	c     *hardware.Card
	node  *viaNode
	costs viaCosts
	clock int64 // of the card, cycles per second

	state   func() bool // the next step; it returns false if it has to wait
	staging []byte      // fetched data
	packet  []byte
	at      int      // index of the VI of the node whose doorbell was polled last
	rung    int      // doorbells that have been rung, and not polled since
	paused  int64    // time since which the program only polls doorbells; 0 if it has other work
	vi      *viaVI   // the VI whose message is being sent
	sending []byte   // the message
	waiting [][]byte // arrived packets, in order
	in      []byte   // the message that is being delivered
}

// viaCosts are the costs of the program's steps, in cycles of the card's processor.
type viaCosts struct {
	Look    int // to poll a doorbell
	Send    int // to send a message
	Receive int // to receive a packet
}

const (
	viaDescriptor = 64 // bytes of a descriptor
	viaStatus     = 16 // bytes written back
	viaLongest    = 4096 + viaHead
	viaBuffers    = 200 // buffers for arriving packets
	viaType       = 3
)

// Load implements hardware.Program.
func (p *viaProgram) Load(c *hardware.Card) error {
	p.c, p.state = c, p.idle
	for i := range viaBuffers + 2 {
		block, err := c.SRAM().Alloc("a packet", viaLongest+viaDescriptor)
		switch {
		case err != nil:
			return err
		case i == 0:
			p.staging = block.Data
		case i == 1:
			p.packet = block.Data
		default:
			c.Post(block.Data)
		}
	}
	return nil
}

// Step implements hardware.Program. It puts arrived packets aside at once, so that no packet
// blocks. The credits of all processes limit their number, not the card's memory.
func (p *viaProgram) Step(int64) int64 {
	for r, ok := p.c.Receive(); ok; r, ok = p.c.Receive() {
		p.waiting = append(p.waiting, append([]byte(nil), r.Payload...))
		p.c.Post(r.Buffer)
	}
	for p.state() {
	}
	return transport.Forever
}

// idle looks for something to do: a send that was posted comes before a packet.
func (p *viaProgram) idle() bool {
	for p.c.Rung() != nil {
		p.rung++
	}
	p.resume()
	switch {
	case p.rung > 0:
		p.vi = p.find()
		p.sending, p.state = p.vi.take(), p.described
		p.c.Work(p.costs.Send)
		p.c.Fetch(p.staging[:viaDescriptor], p.vi.descriptor[:])
	case len(p.waiting) > 0:
		p.in, p.waiting, p.state = p.waiting[0], p.waiting[1:], p.received
		p.c.Work(p.costs.Receive)
		p.c.Fetch(p.staging[:viaDescriptor], make([]byte, viaDescriptor))
	default:
		p.paused = p.c.Now()
	}
	return false
}

// resume ends a time in which the program only polled doorbells.
func (p *viaProgram) resume() {
	if p.paused > 0 && p.costs.Look > 0 {
		looks := (p.c.Now() - p.paused) * p.clock / int64(time.Second) / int64(p.costs.Look)
		p.at = int((int64(p.at) + looks) % int64(len(p.node.vis)))
	}
	p.paused = 0
}

// find looks at doorbells until one has been rung, and takes its token.
func (p *viaProgram) find() *viaVI {
	for {
		p.at = (p.at + 1) % len(p.node.vis)
		p.c.Work(p.costs.Look)
		if v := p.node.vis[p.at]; v.rung {
			p.rung--
			v.answer()
			return v
		}
	}
}

// received continues when the descriptor of the receive for a packet has arrived. It transfers the
// packet's data.
func (p *viaProgram) received() bool {
	if p.c.Transferring() {
		return false
	}
	p.c.Transfer(len(p.in), nil)
	p.state = p.delivered
	return false
}

// described continues when the descriptor of a send has arrived. It fetches the send's data.
func (p *viaProgram) described() bool {
	if p.c.Transferring() {
		return false
	}
	p.c.Fetch(p.staging, p.sending)
	p.state = p.fetched
	return false
}

// fetched continues when the data of a send have arrived. It sends the packet.
func (p *viaProgram) fetched() bool {
	if p.c.Transferring() {
		return false
	}
	p.c.Send(hardware.AppendPacket(p.packet[:0], p.vi.route, viaType, p.staging[:len(p.sending)]))
	p.state = p.sent
	return false
}

func (p *viaProgram) sent() bool {
	if p.c.Sending() {
		return false
	}
	p.c.Transfer(viaStatus, p.vi.complete)
	p.state = p.completed
	return false
}

// delivered continues when the data of a packet are in the host's memory. It writes the status.
func (p *viaProgram) delivered() bool {
	if p.c.Transferring() {
		return false
	}
	p.c.Transfer(viaStatus, func() { p.node.complete(p.in) })
	p.state = p.completed
	return false
}

// completed continues when a status has been written.
func (p *viaProgram) completed() bool {
	if p.c.Transferring() {
		return false
	}
	p.state = p.idle
	return true
}
