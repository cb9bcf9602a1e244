package hardware

import (
	"bytes"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// wire is the end of a live cable, as a card sees it.
type wire struct {
	sent  [][]byte
	resum int
}

func (w *wire) Send(packet []byte) bool {
	w.sent = append(w.sent, bytes.Clone(packet))
	return true
}
func (w *wire) Resume()        { w.resum++ }
func (w *wire) MaxPacket() int { return 2000 }

// TestLiveCard: a card without a world does all at once, when somebody polls it.
func TestLiveCard(t *testing.T) {
	c, err := NewCard(nil, myrinet.CardConfig{Name: "live"})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	if err := c.Plug(w); err != nil {
		t.Fatal(err)
	}
	var got []string
	p := &script{}
	p.load = func(c *Card) error {
		c.Post(make([]byte, 100))
		return nil
	}
	p.step = func(c *Card) {
		for r, ok := c.Receive(); ok; r, ok = c.Receive() {
			got = append(got, string(r.Payload))
			c.Post(r.Buffer)
			c.Send(outgoing(nil, r.Type, r.Payload))
		}
	}
	if err := c.Load(p); err != nil {
		t.Fatal(err)
	}
	if next := c.Poll(10); next != transport.Forever || c.Pending() || c.Now() != 10 {
		t.Errorf("next is %d, pending %v, now %d", next, c.Pending(), c.Now())
	}
	packet := AppendPacket(nil, nil, 3, []byte("ping"))
	if !c.Room(len(packet)) {
		t.Fatal("there is no room")
	}
	c.Arrived(packet, true)
	if len(got) != 0 || !c.Pending() {
		t.Fatal("the card works when nobody polls it")
	}
	c.Poll(20)
	if len(got) != 1 || len(w.sent) != 1 || !bytes.Equal(w.sent[0], packet) || !c.Sending() {
		t.Fatalf("got %q, sent %x, %v", got, w.sent, c.Sending())
	}
	c.Sent()
	c.Poll(30)
	if c.Sending() || c.Now() != 30 {
		t.Errorf("the engine is still busy, at %d", c.Now())
	}
}

// TestPollEnds: a program that always finds something to do does not keep its driver.
func TestPollEnds(t *testing.T) {
	c, err := NewCard(nil, myrinet.CardConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Plug(&wire{}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	if err := c.Load(&script{step: func(c *Card) { c.DMA(b[:4], b[4:]) }}); err != nil {
		t.Fatal(err)
	}
	if next := c.Poll(5); next != 5 || !c.Pending() || c.Stats().Steps != maxSteps {
		t.Errorf("next is %d, %d steps", next, c.Stats().Steps)
	}
}

// player sends back what it gets, by all engines.
type player struct {
	c     *Card
	buf   Block
	host  []byte
	page  *Page
	in    Received
	stage int
	count int
}

func (p *player) Load(c *Card) (err error) {
	p.c, p.host = c, make([]byte, 200)
	p.buf, err = c.SRAM().Alloc("buffer", 200)
	c.Post(p.buf.Data)
	return err
}

func (p *player) Step(int64) int64 {
	if p.in.Buffer == nil {
		p.in, _ = p.c.Receive()
	}
	switch {
	case p.stage == 0 && p.in.Buffer != nil && p.c.DMA(p.host, p.in.Payload):
		p.stage = 1
		p.c.Work(20)
	case p.stage == 1 && !p.c.Transferring() && p.c.Send(p.buf.Data[:103]):
		p.c.Interrupt(1)
		p.stage = 2
	case p.stage == 2 && !p.c.Sending():
		p.c.Post(p.in.Buffer)
		p.in, p.stage = Received{}, 0
		p.count++
	}
	return transport.Forever
}

// TestCardAllocations: a packet costs no allocation, neither in its engines nor in the
// host's access.
func TestCardAllocations(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	cards, players := make([]*Card, 2), make([]*player, 2)
	for i := range cards {
		cards[i], players[i] = r.newCard(myrinet.CardConfig{Timing: myrinet.PCITiming()}), &player{}
		cards[i].OnInterrupt(func(uint32) { players[i].page.Ring() })
		r.load(cards[i], players[i])
		var err error
		if players[i].page, err = cards[i].OpenPage("p"); err != nil {
			t.Fatal(err)
		}
	}
	r.join(cards[0].wire.(*myrinet.Port), cards[1].wire.(*myrinet.Port))
	ball := outgoing(nil, 1, payload(100))
	cards[0].Send(ball)
	r.run(time.Millisecond)
	before := players[0].count
	if n := testing.AllocsPerRun(5, func() { r.run(10 * time.Millisecond) }); n != 0 || players[0].count-before < 100 {
		t.Errorf("%v allocations for %d rounds", n, players[0].count-before)
	}
	if st := cards[0].Stats(); st.Dropped() != 0 || st.Interrupts == 0 || st.Doorbells == 0 {
		t.Errorf("%+v", st)
	}
}

// FuzzCard: any bytes, whole or not, are counted once and keep no buffer.
func FuzzCard(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(AppendPacket(nil, myrinet.Route{1}, 2, []byte("routed")), true)
	f.Add(AppendPacket(nil, nil, 2, []byte("good")), true)
	f.Add(AppendPacket(nil, nil, 2, []byte("cut")), false)
	f.Fuzz(func(t *testing.T, packet []byte, whole bool) {
		c, err := NewCard(nil, myrinet.CardConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Plug(&wire{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Load(&script{load: func(c *Card) error { c.Post(make([]byte, 64)); return nil }}); err != nil {
			t.Fatal(err)
		}
		c.Room(len(packet))
		c.Arrived(packet, whole)
		st, snap := c.Stats(), c.Snapshot()
		if st.PacketsIn+st.Dropped() != 1 || snap.Posted+snap.Filled != 1 || snap.Filled != int(st.PacketsIn) {
			t.Errorf("%+v", snap)
		}
		if typ, p, err := ParsePacket(packet); (err == nil && whole && len(packet) <= 64) != (st.PacketsIn == 1) {
			t.Errorf("type %d, %d bytes, %v: %+v", typ, len(p), err, st)
		}
	})
}
