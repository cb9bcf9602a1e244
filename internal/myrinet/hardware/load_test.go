package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// TestNoBuffer: a packet that finds no buffer blocks, with what is behind it, and comes
// when there is one. Nothing is lost.
func TestNoBuffer(t *testing.T) {
	r := newRig(t, myrinet.Options{Timeout: time.Hour})
	c, s := r.cardAndSink(myrinet.CardConfig{})
	got := 0
	r.load(c, &script{step: func(c *Card) {
		for _, ok := c.Receive(); ok; _, ok = c.Receive() {
			got++
		}
	}})
	for range 5 {
		s.send(AppendPacket(nil, nil, 1, payload(1000)))
	}
	r.run(time.Millisecond)
	if got != 0 || s.sent != 0 || c.Stats().NoBuffer != 1 || !c.Snapshot().Blocked {
		t.Fatalf("%d packets came, %d left: %+v", got, s.sent, c.Stats())
	}
	for i := range 5 {
		if !c.Post(make([]byte, 1003)) {
			t.Fatal("no buffer can be posted")
		}
		r.run(time.Millisecond)
		if got != i+1 {
			t.Fatalf("%d packets came for %d buffers", got, i+1)
		}
	}
	r.account()
	for range maxPosted {
		if !c.Post(make([]byte, 3)) {
			t.Fatal("fewer buffers can be posted than there may be")
		}
	}
	if c.Post(make([]byte, 3)) || c.Post(nil) {
		t.Error("there are more buffers than there can be")
	}
}

// TestDamagedPackets: each is counted under its reason, and its buffer is used again.
func TestDamagedPackets(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c, s := r.cardAndSink(myrinet.CardConfig{})
	r.load(c, &script{load: func(c *Card) error {
		c.Post(make([]byte, 100))
		return nil
	}})
	good := AppendPacket(nil, nil, 5, []byte("good"))
	bad := bytes.Clone(good)
	bad[3] ^= 1
	s.send(bad, AppendPacket(nil, myrinet.Route{3}, 5, nil), AppendPacket(nil, nil, 5, payload(98)))
	r.run(time.Millisecond)
	c.Room(len(good))
	c.Arrived(good[:6], false)
	s.send(good)
	r.run(time.Millisecond)
	st := c.Stats()
	if st.CRCErrors != 1 || st.Misrouted != 1 || st.TooLong != 1 || st.Truncated != 1 || st.PacketsIn != 1 || st.Dropped() != 4 {
		t.Errorf("%+v", st)
	}
	if got, ok := c.Receive(); !ok || got.Type != 5 || string(got.Payload) != "good" || len(got.Buffer) != 100 {
		t.Errorf("received %+v, %v", got, ok)
	}
}

// TestRefusedPackets: the engine is free again after a packet that the link does not
// take, and one that is no packet is not begun.
func TestRefusedPackets(t *testing.T) {
	r := newRig(t, myrinet.Options{MaxPacket: 1000})
	c, s := r.cardAndSink(myrinet.CardConfig{})
	r.load(c, &script{})
	if c.Send([]byte{0, 0}) || c.Sending() {
		t.Error("two bytes are a packet")
	}
	if !c.Send(outgoing(nil, 1, make([]byte, 1000))) || c.Sending() || c.Stats().Refused != 1 {
		t.Errorf("the engine is busy with a packet that is too long: %+v", c.Stats())
	}
	if !c.Send(outgoing(nil, 1, make([]byte, 997))) || !c.Sending() || c.Send(outgoing(nil, 1, nil)) {
		t.Error("the engine does not do one packet at a time")
	}
	r.run(time.Millisecond)
	if len(s.got) != 1 || c.Sending() {
		t.Errorf("%d packets came", len(s.got))
	}
}

// busyProgram has every engine at work, and an interrupt under way.
type busyProgram struct {
	c    *Card
	host []byte
	buf  Block
	busy bool
}

func (p *busyProgram) Load(c *Card) (err error) {
	p.c = c
	if p.buf, err = c.SRAM().Alloc("buffers", 8000); err != nil {
		return err
	}
	for i := range 3 {
		c.Post(p.buf.Data[2000*i:][:2000])
	}
	copy(p.buf.Data[6000:], outgoing(nil, 1, make([]byte, 1000)))
	return nil
}

func (p *busyProgram) Step(int64) int64 {
	if !p.busy {
		p.busy = true
		p.c.Work(33)
		p.c.DMA(p.host, p.buf.Data[7500:])
		p.c.Interrupt(1)
		p.c.Send(p.buf.Data[6000:][:1003])
	}
	return 0
}

// takeover is the program after a busyProgram. It starts all that the other has.
type takeover struct {
	c     *Card
	start int64
	done  int64 // when its transfer ended
	got   int
}

func (p *takeover) Load(c *Card) error {
	if c.Rung() != nil || c.Transferring() {
		return errors.New("the program begins with what the one before has left")
	}
	for range 100 {
		c.Post(make([]byte, 2000))
	}
	p.c, p.start = c, c.Now()
	c.DMA(make([]byte, 100), make([]byte, 100))
	c.Interrupt(2)
	return nil
}

func (p *takeover) Step(now int64) int64 {
	for _, ok := p.c.Receive(); ok; _, ok = p.c.Receive() {
		p.got++
	}
	if p.done == 0 && !p.c.Transferring() {
		p.done = now
	}
	return transport.Forever
}

// TestLoadUnderWay replaces a program at any moment while packets, a transfer and an
// interrupt are under way. The next program sees nothing of them, what it starts itself
// takes its own time, and no memory is lost.
func TestLoadUnderWay(t *testing.T) {
	seeds.Each(t, 200, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 2))
		r := newRig(t, myrinet.Options{Seed: seed})
		c, s := r.cardAndSink(myrinet.CardConfig{Timing: myrinet.PCITiming()})
		page, err := c.OpenPage("p")
		if err != nil {
			return err
		}
		causes, second := uint32(0), int64(0)
		c.OnInterrupt(func(n uint32) {
			if causes |= n; n == 2 {
				second = r.w.Now()
			}
		})
		for range 20 {
			s.send(AppendPacket(nil, nil, 1, payload(1500)))
		}
		old := bytes.Repeat([]byte{1}, 100)
		r.load(c, &busyProgram{host: old})
		r.run(time.Duration(rng.IntN(15_000)))
		page.Ring()
		moved, told, sent := old[0] == 0, causes, c.Stats().PacketsOut
		coming, before := c.in.coming, c.Stats().PacketsIn
		next := &takeover{}
		if err := c.Load(next); err != nil {
			return err
		}
		r.run(time.Millisecond)
		if want := next.start + (timing{myrinet.PCITiming()}).dma(100); next.done < want || next.done > want+1 || second != next.start+10_000 {
			return fmt.Errorf("a transfer of 100 bytes took %d ns, an interrupt %d", next.done-next.start, second-next.start)
		}
		if causes != told|2 || (old[0] == 0) != moved || len(s.got) != int(sent) {
			return fmt.Errorf("the host has heard %b, its memory was written: %v (before: %v), %d packets left (before: %d)",
				causes, old[0] == 0, moved, len(s.got), sent)
		}
		st := c.Stats()
		if int(st.PacketsIn-before) != next.got || int(st.PacketsIn+st.Reloaded) != 20 || (st.Reloaded == 1) != coming {
			return fmt.Errorf("%d packets came to the program, one was coming: %v; %+v", next.got, coming, st)
		}
		if used := c.SRAM().Used(); used != 4096 {
			return fmt.Errorf("%d bytes of SRAM are in use, want the page alone", used)
		}
		return nil
	})
}

// failing takes memory, starts everything and fails.
type failing struct{ busyProgram }

var errLoad = errors.New("does not want to")

func (f *failing) Load(c *Card) error {
	if err := f.busyProgram.Load(c); err != nil {
		return err
	}
	f.Step(0)
	return errLoad
}

// TestLoadFails: a program that does not load leaves an empty card, on which another one
// works.
func TestLoadFails(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c, s := r.cardAndSink(myrinet.CardConfig{Timing: myrinet.PCITiming()})
	if err := c.Load(&failing{busyProgram{host: make([]byte, 100)}}); !errors.Is(err, errLoad) {
		t.Fatal(err)
	}
	s.send(AppendPacket(nil, nil, 1, payload(1500)))
	r.run(10 * time.Microsecond)
	if snap := c.Snapshot(); snap.Loaded || len(snap.Memory) != 0 || snap.Posted != 0 || snap.Transferring || snap.Sending || c.Stats().Interrupts != 0 {
		t.Errorf("what failed is still there: %+v", snap)
	}
	r.load(c, &busyProgram{host: make([]byte, 100)})
	r.run(10 * time.Microsecond)
	if snap := c.Snapshot(); !snap.Loaded || len(snap.Memory) != 1 || snap.Memory[0].Size != 8000 || snap.Posted+snap.Filled != 3 {
		t.Errorf("the next program does not work: %+v", snap)
	}
}
