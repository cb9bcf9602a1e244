package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// cardBench is two cards joined by a cable. It measures only the hardware: no protocol runs on the
// cards.
type cardBench struct {
	w      *sim.World
	a, b   *hardware.Card
	buffer []byte // in the memory of a
	free   int64  // the last time at which the engines of a became idle
}

// bareProgram only provides memory for arriving packets.
type bareProgram struct {
	c *hardware.Card
	b *cardBench
}

func (p *bareProgram) Load(c *hardware.Card) error {
	p.c = c
	block, err := c.SRAM().Alloc("buffer", benchBuffer)
	if err != nil {
		return err
	}
	if c == p.b.a {
		p.b.buffer = block.Data
		return nil
	}
	c.Post(block.Data)
	return nil
}

func (p *bareProgram) Step(now int64) int64 {
	if p.c == p.b.a && !p.c.Transferring() && !p.c.Sending() {
		p.b.free = now
	}
	if r, ok := p.c.Receive(); ok {
		p.c.Post(r.Buffer)
	}
	return transport.Forever
}

// benchBuffer holds the longest block of the VMMC paper's figure 1.
const benchBuffer = 1<<16 + 64

func newCardBench(timing *myrinet.Timing) (*cardBench, error) {
	b := &cardBench{w: sim.New(sim.Options{Seed: 1})}
	f, err := myrinet.New(b.w, myrinet.Options{Seed: 1, MaxPacket: benchBuffer})
	if err != nil {
		return nil, err
	}
	var ports [2]*myrinet.Port
	for i, c := range []**hardware.Card{&b.a, &b.b} {
		name := string(rune('a' + i))
		if *c, err = hardware.NewCard(b.w, myrinet.CardConfig{Name: name, Timing: timing}); err != nil {
			return nil, err
		}
		ports[i] = f.Host(name, *c)
		if err := (*c).Plug(ports[i]); err != nil {
			return nil, err
		}
	}
	if _, err := f.Join(ports[0], ports[1]); err != nil {
		return nil, err
	}
	for _, c := range []*hardware.Card{b.a, b.b} {
		if err := c.Load(&bareProgram{b: b}); err != nil {
			return nil, err
		}
	}
	return b, b.w.Sleep(time.Millisecond)
}

// took calls start, which starts an engine of card a. It returns how long the engine works.
func (b *cardBench) took(start func()) (time.Duration, error) {
	began := b.w.Now()
	start()
	err := b.w.Sleep(time.Second)
	return time.Duration(b.free - began), err
}

// dma returns the bandwidth of transfers of n bytes from the host to the card, in bytes
// per second.
func (b *cardBench) dma(n int) (float64, error) {
	took, err := b.took(func() { b.a.DMA(b.buffer[:n], make([]byte, n)) })
	return float64(n) / took.Seconds(), err
}

// link returns the bandwidth of packets with n bytes of payload, in bytes per second.
func (b *cardBench) link(n int) (float64, error) {
	const anyType = 1
	packet := hardware.AppendPacket(b.buffer[:0], nil, anyType, make([]byte, n))
	took, err := b.took(func() { b.a.Send(packet) })
	return float64(n) / took.Seconds(), err
}

// words returns the host's time to write a word to the card, and its time to read one.
func (b *cardBench) words() (write, read time.Duration, err error) {
	page, err := b.a.OpenPage("bench")
	if err != nil {
		return 0, 0, err
	}
	defer page.Close()
	word := make([]byte, 4)
	b.a.TakeDebt()
	if err := page.Write(0, word); err != nil {
		return 0, 0, err
	}
	write = time.Duration(b.a.TakeDebt())
	err = page.Read(0, word)
	return write, time.Duration(b.a.TakeDebt()), err
}
