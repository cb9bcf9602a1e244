package hardware

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// script is a control program made of functions.
type script struct {
	load func(c *Card) error
	step func(c *Card)
	c    *Card
}

func (s *script) Load(c *Card) error {
	s.c = c
	if s.load == nil {
		return nil
	}
	return s.load(c)
}

func (s *script) Step(int64) int64 {
	if s.step != nil {
		s.step(s.c)
	}
	return transport.Forever
}

// newCard adds a card without a program to the rig.
func (r *rig) newCard(cfg myrinet.CardConfig) *Card {
	c, err := NewCard(r.w, cfg)
	if err != nil {
		r.Fatal(err)
	}
	if err := c.Plug(r.Host(cfg.Name, c)); err != nil {
		r.Fatal(err)
	}
	return c
}

func (r *rig) load(c *Card, p Program) {
	r.Helper()
	if err := c.Load(p); err != nil {
		r.Fatal(err)
	}
}

// cardAndSink is a card that is joined to a sink by a cable.
func (r *rig) cardAndSink(cfg myrinet.CardConfig) (*Card, *sink) {
	c, s := r.newCard(cfg), &sink{world: r.w}
	s.port = r.Host("sink", s)
	r.join(c.wire.(*myrinet.Port), s.port)
	return c, s
}

// outgoing is a packet as Card.Send wants it, with room for its CRC-8.
func outgoing(route myrinet.Route, typ uint16, payload []byte) []byte {
	return AppendPacket(nil, route, typ, payload)
}

// TestCardRefuses: what cannot be is an error that names the remedy.
func TestCardRefuses(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	for _, cfg := range []myrinet.CardConfig{{SRAM: 4095}, {SRAM: -1}, {SRAM: 1<<30 + 1}, {PageSize: 3}} {
		if _, err := NewCard(r.w, cfg); !errors.Is(err, ErrSRAM) || !strings.Contains(err.Error(), "CardConfig.SRAM") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := NewCard(nil, myrinet.CardConfig{Timing: myrinet.PCITiming()}); err == nil {
		t.Error("a live card has a timing model")
	}
	c, err := NewCard(r.w, myrinet.CardConfig{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Load(&script{}); err == nil {
		t.Error("a card that is not plugged in has a program")
	}
	port := r.Host("c", c)
	other, err := NewCard(r.w, myrinet.CardConfig{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Plug(port); err == nil || !strings.Contains(err.Error(), "not its own") {
		t.Errorf("two cards on one port: %v", err)
	}
	if err := c.Plug(port); err != nil {
		t.Fatal(err)
	}
	if err := c.Plug(port); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a card is plugged in twice: %v", err)
	}
	for i := range 64 {
		if _, err := c.OpenPage("p"); err != nil {
			t.Fatalf("page %d: %v", i, err)
		}
	}
	if _, err := c.OpenPage("one more"); !errors.Is(err, ErrSRAM) || !strings.Contains(err.Error(), "page of p has 262144") {
		t.Errorf("a page more than there is memory for: %v", err)
	}
}

// TestCardTiming: each operation takes what the model says, in virtual time, and what a
// step starts after Card.Work begins when that is over.
func TestCardTiming(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c, s := r.cardAndSink(myrinet.CardConfig{Timing: myrinet.PCITiming()})
	hostMemory := payload(4096)
	var start, dmaDone, sentAt, interrupted int64
	var sram Block
	first := true
	c.OnInterrupt(func(uint32) { interrupted = r.w.Now() })
	p := &script{}
	p.load = func(c *Card) (err error) {
		sram, err = c.SRAM().Alloc("buffer", 5000)
		return err
	}
	p.step = func(c *Card) {
		switch {
		case first:
			first, start = false, c.Now()
			c.Work(33)
			c.DMA(sram.Data, hostMemory)
			copy(sram.Data[4096:], outgoing(nil, 7, make([]byte, 157)))
			c.Send(sram.Data[4096:][:160])
			c.Interrupt(1)
		case dmaDone == 0 && !c.Transferring():
			dmaDone = c.Now()
		}
		if sentAt == 0 && !c.Sending() {
			sentAt = c.Now()
		}
	}
	r.load(c, p)
	r.run(time.Millisecond)
	const us = 1000
	for _, test := range []struct {
		what      string
		got, want int64
	}{
		{"33 cycles and a DMA of 4096 bytes", dmaDone - start, 1*us + 2*us + 35311},
		{"33 cycles and a packet of 160 bytes", sentAt - start, 1*us + 1*us},
		{"33 cycles and an interrupt", interrupted - start, 1*us + 10*us},
		{"the packet's arrival", s.at[0] - start, 1*us + 1*us + 25},
	} {
		if test.got < test.want || test.got > test.want+test.want/100 {
			t.Errorf("%s: %d ns, want %d", test.what, test.got, test.want)
		}
	}
	if !bytes.Equal(sram.Data[:4096], hostMemory) {
		t.Error("the DMA has not moved what it should")
	}
	if st := c.Stats(); st.DMAs != 1 || st.DMABytes != 4096 || st.Cycles != 33 || st.PacketsOut != 1 || st.BytesOut != 160 || st.Interrupts != 1 {
		t.Errorf("%+v", st)
	}
	if (timing{myrinet.PCITiming()}).dma(4096) != 37311 || (timing{myrinet.SBusTiming()}).dma(8192) != 2*us+213334 || (timing{myrinet.SBusTiming()}).cycles(75) != 2*us {
		t.Error("the models are others than their comments say")
	}
	slow := timing{&myrinet.Timing{DMABandwidth: 100_000_000, DMAFetch: 50_000_000}}
	if slow.dma(1000) != 10*us || slow.fetch(1000) != 20*us || (timing{myrinet.PCITiming()}).fetch(4096) != (timing{myrinet.PCITiming()}).dma(4096) {
		t.Error("a transfer from the host does not take the time that the model says")
	}
}

// TestCardWithoutModel: a card that has no timing model does all at once, and the host
// owes nothing.
func TestCardWithoutModel(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c, _ := r.cardAndSink(myrinet.CardConfig{})
	b, err := c.SRAM().Alloc("b", 100)
	if err != nil {
		t.Fatal(err)
	}
	interrupts := 0
	c.OnInterrupt(func(uint32) { interrupts++ })
	if !c.DMA(b.Data, []byte("at once")) || c.Transferring() || string(b.Data[:7]) != "at once" {
		t.Error("the DMA took time")
	}
	c.Work(1000)
	if c.Now() != r.w.Now() {
		t.Error("cycles took time")
	}
	if c.Interrupt(2); interrupts != 1 {
		t.Error("the interrupt took time")
	}
	page, err := c.OpenPage("p")
	if err != nil {
		t.Fatal(err)
	}
	if err := page.Write(0, make([]byte, 400)); err != nil || c.TakeDebt() != 0 {
		t.Errorf("the host owes time: %v", err)
	}
}

// TestEnginesSideBySide: a DMA, a packet out and a packet in take no longer together than
// the longest of them alone.
func TestEnginesSideBySide(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c, s := r.cardAndSink(myrinet.CardConfig{Timing: myrinet.PCITiming()})
	ends := map[string]time.Duration{}
	start := r.w.Now()
	mark := func(what string, over bool) {
		if over && ends[what] == 0 {
			ends[what] = time.Duration(r.w.Now() - start)
		}
	}
	p := &script{}
	p.load = func(c *Card) error {
		c.Post(make([]byte, 5000))
		c.DMA(make([]byte, 4096), make([]byte, 4096))
		c.Send(outgoing(nil, 1, make([]byte, 4096)))
		return nil
	}
	p.step = func(c *Card) {
		_, came := c.Receive()
		mark("in", came)
		mark("out", !c.Sending())
		mark("dma", !c.Transferring())
	}
	s.send(AppendPacket(nil, nil, 1, payload(4096)))
	r.load(c, p)
	r.run(time.Millisecond)
	for what, want := range map[string]time.Duration{"in": 25650, "out": 25620, "dma": 37311} {
		if got := ends[what]; got < want-50 || got > want+50 {
			t.Errorf("%s took %v, want %v", what, got, want)
		}
	}
	r.account()
}

// TestHostTime: the host's access to a card is charged word by word, and owed until
// somebody pays.
func TestHostTime(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c := r.newCard(myrinet.CardConfig{Timing: myrinet.PCITiming()})
	page, err := c.OpenPage("p")
	if err != nil {
		t.Fatal(err)
	}
	now := r.w.Now()
	if err := errors.Join(page.Write(0, make([]byte, 9)), page.Read(0, make([]byte, 4))); err != nil {
		t.Fatal(err)
	}
	page.Ring()
	const want = 3*121 + 422 + 121
	if got := c.TakeDebt(); got != want || c.TakeDebt() != 0 || c.Stats().HostNanos != want {
		t.Errorf("the host owes %d ns, want %d, once", got, want)
	}
	if r.w.Now() != now {
		t.Error("time has passed in a call")
	}
}

// TestDoorbellPages: the program sees who has rung, in order, each once; a process that
// scribbles over its window, and beyond, harms only itself.
func TestDoorbellPages(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c, _ := r.cardAndSink(myrinet.CardConfig{PageSize: 64})
	var rung []*Page
	var table Block
	r.load(c, &script{
		load: func(c *Card) (err error) {
			table, err = c.SRAM().Alloc("table", 64)
			return err
		},
		step: func(c *Card) {
			for p := c.Rung(); p != nil; p = c.Rung() {
				rung = append(rung, p)
			}
		},
	})
	var pages []*Page
	for range 3 {
		p, err := c.OpenPage("process")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, p)
	}
	copy(table.Data, "the program's own")
	if err := pages[2].Write(0, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	noise := bytes.Repeat([]byte{0xff}, 200)
	for offset := -70; offset < 200; offset++ {
		for n := range 130 {
			inside := offset >= 0 && offset+n <= 64
			if err := pages[1].Write(offset, noise[:n]); errors.Is(err, ErrPage) == inside {
				t.Fatalf("%d bytes at %d: %v", n, offset, err)
			}
			if err := pages[1].Read(offset, make([]byte, n)); errors.Is(err, ErrPage) == inside {
				t.Fatalf("read of %d bytes at %d: %v", n, offset, err)
			}
		}
	}
	if !bytes.Equal(pages[1].Bytes(), noise[:64]) || !bytes.HasPrefix(table.Data, []byte("the program's own")) ||
		!bytes.HasPrefix(pages[2].Bytes(), []byte("hello")) || !bytes.Equal(pages[0].Bytes(), make([]byte, 64)) {
		t.Error("what was scribbled is elsewhere, too")
	}
	for _, i := range []int{2, 0, 2, 1, 0} {
		pages[i].Ring()
	}
	r.run(time.Microsecond)
	if want := []*Page{pages[2], pages[0], pages[1]}; !slices.Equal(rung, want) {
		t.Errorf("%d pages have rung, not those that did, each once", len(rung))
	}
	pages[0].Ring()
	pages[0].Close()
	pages[0].Close()
	pages[0].Ring()
	if err := pages[0].Write(0, noise[:1]); !errors.Is(err, ErrPage) || c.Rung() != nil || len(c.Pages()) != 2 {
		t.Errorf("a closed page can be used: %v", err)
	}
	if used := c.Stats().SRAMUsed; used != 3*64 {
		t.Errorf("%d bytes of SRAM are in use", used)
	}
}

// TestInterrupts: causes that come before the handler is called share the call.
func TestInterrupts(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	c := r.newCard(myrinet.CardConfig{Timing: myrinet.PCITiming()})
	var told []uint32
	c.OnInterrupt(func(causes uint32) { told = append(told, causes) })
	c.Interrupt(0)
	c.Interrupt(1)
	r.run(9 * time.Microsecond)
	c.Interrupt(4)
	if len(told) != 0 {
		t.Fatal("the handler was called early")
	}
	r.run(2 * time.Microsecond)
	c.Interrupt(8)
	r.run(20 * time.Microsecond)
	if !slices.Equal(told, []uint32{5, 8}) || c.Stats().Interrupts != 2 {
		t.Errorf("the handler was told %v", told)
	}
}
