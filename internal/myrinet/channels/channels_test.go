package channels

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// channelPair is a card that sends, one that receives, and what lies between.
type channelPair struct {
	t   *testing.T
	now int64
	s   Sender
	r   Receiver
}

const otherCard = 3

func newChannelPair(t *testing.T, cfg Config) *channelPair {
	t.Helper()
	c := &channelPair{t: t, now: 1_000_000}
	c.s.Init(&cfg, 100)
	c.r.Init(&cfg, 5000)
	return c
}

// send sends a packet of an owner.
func (c *channelPair) send(owner int, packet uint32) Header {
	c.t.Helper()
	if !c.s.Free(otherCard) {
		c.t.Fatalf("no channel is free for packet %d", packet)
	}
	return c.s.Send(c.now, otherCard, owner, packet)
}

// arrive has a packet arrive, and wants a verdict.
func (c *channelPair) arrive(h Header, want ArrivalVerdict) Answer {
	c.t.Helper()
	v, a := c.r.Arrive(otherCard, h)
	if v != want {
		c.t.Fatalf("header %+v: verdict %d, want %d", h, v, want)
	}
	return a
}

// answer has an answer arrive, and wants an end of its packet.
func (c *channelPair) answer(a Answer, want Ended) {
	c.t.Helper()
	if p := c.s.OnAnswer(otherCard, a); p.End != want {
		c.t.Fatalf("answer %v: end %v, want %v", a.Kind, p.End, want)
	}
}

// scan runs a scan and returns what it finds.
func (c *channelPair) scan() (found []Passage) {
	for {
		p, more := c.s.Scan(c.now)
		if !more {
			return found
		}
		found = append(found, p)
	}
}

// again runs a scan after the time-out, which must have one packet sent again.
func (c *channelPair) again() Header {
	c.t.Helper()
	c.now += c.s.cfg.Timeout
	found := c.scan()
	if len(found) != 1 || found[0].End != NotEnded {
		c.t.Fatalf("a scan finds %+v, want one packet to be sent again", found)
	}
	return found[0].Header
}

// initialised has channel 0 carry a first message.
func (c *channelPair) initialised() {
	c.t.Helper()
	c.answer(c.arrive(c.send(0, 1), ArrivalAnswer), NotEnded)
	found := c.scan()
	if len(found) != 1 {
		c.t.Fatalf("after an epoch was offered a scan finds %+v, want the packet", found)
	}
	c.arrive(found[0].Header, ArrivalNew)
	c.answer(c.r.Accept(otherCard, 0), EndedAcked)
}

func TestChannelInitialisesItself(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	if c.s.Deadline() != math.MaxInt64 {
		t.Error("a table without packets has a deadline")
	}
	h := c.send(7, 42)
	if !h.Init || c.s.Free(otherCard) {
		t.Errorf("the first packet carries %+v, and a second one has a channel: %v", h, c.s.Free(otherCard))
	}
	a := c.arrive(h, ArrivalAnswer)
	if a.Kind != NackInit {
		t.Fatalf("the first packet is answered by %v, want %v", a.Kind, NackInit)
	}
	c.answer(a, NotEnded)
	if c.s.Deadline() > c.now {
		t.Error("the packet waits for its time-out after an epoch was offered")
	}
	found := c.scan()
	if len(found) != 1 || found[0].Packet != 42 || found[0].Owner != 7 || found[0].Card != otherCard || found[0].Header.Epoch != a.Offer {
		t.Fatalf("a scan finds %+v, want packet 42 of owner 7 under epoch %d", found, a.Offer)
	}
	c.arrive(found[0].Header, ArrivalNew)
	p := c.s.OnAnswer(otherCard, c.r.Accept(otherCard, 0))
	if p.End != EndedAcked || p.Packet != 42 || p.Owner != 7 || p.Card != otherCard {
		t.Errorf("the ACK ends %+v, want packet 42 of owner 7", p)
	}
	h = c.send(7, 43)
	if h.Init {
		t.Error("the second packet initialises the channel again")
	}
	c.arrive(h, ArrivalNew)
}

func TestChannelSendsAgainByScanOnly(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	h := c.send(0, 2)
	for range 3 {
		c.arrive(h, ArrivalNew)
		c.answer(c.r.Refuse(otherCard, 0, NackOverrun), NotEnded)
		c.now = c.s.Deadline()
		if found := c.scan(); len(found) != 0 {
			t.Fatalf("a scan before the time-out finds %+v", found)
		}
		h = c.again()
	}
	c.arrive(h, ArrivalNew)
	c.r.Accept(otherCard, 0) // and the ACK is lost
	a := c.arrive(c.again(), ArrivalAnswer)
	c.answer(a, EndedAcked)
	if st := c.r.Stats(); st.Duplicates != 1 || st.Answers[NackOverrun] != 3 {
		t.Errorf("the receiver has counted %+v, want 1 duplicate and 3 NACKs", st)
	}
}

func TestChannelGivesUpAfter255Tries(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	h := c.send(0, 2)
	c.arrive(h, ArrivalNew)
	nack := c.r.Refuse(otherCard, 0, NackResident)
	for range 200 {
		c.again()
	}
	nack.Stamp += 200
	c.answer(nack, NotEnded)
	for range 255 {
		c.again()
	}
	c.now += c.s.cfg.Timeout
	found := c.scan()
	if len(found) != 1 || found[0].End != EndedUnreachable || found[0].Packet != 2 {
		t.Fatalf("after a NACK and 255 tries a scan finds %+v, want packet 2 to be returned", found)
	}
	if h := c.send(0, 3); !h.Init {
		t.Error("the sequence is not uninitialised after a packet was given up")
	}
}

func TestChannelRefusedMessageReturnsAtOnce(t *testing.T) {
	for _, kind := range []AnswerKind{NackTag, NackNoEndpoint} {
		c := newChannelPair(t, Config{Channels: 1})
		c.initialised()
		h := c.send(0, 2)
		c.arrive(h, ArrivalNew)
		a := c.r.Refuse(otherCard, 0, kind)
		c.answer(a, EndedRefused)
		c.answer(a, NotEnded) // a late copy
		h2 := c.send(0, 3)
		if h2.Bit != h.Bit || h2.Init {
			t.Errorf("%v: the packet after a refused one carries %+v, want the bit of %+v", kind, h2, h)
		}
		c.arrive(h2, ArrivalNew)
		c.answer(c.r.Accept(otherCard, 0), EndedAcked)
	}
}

func TestChannelUnloadWaitsForLatestNack(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	c.s.Drain(9)
	if !c.s.Drained(9) {
		t.Error("an owner without packets is not drained")
	}
	c.s.Resume(9)

	c.arrive(c.send(9, 2), ArrivalNew)
	old := c.r.Refuse(otherCard, 0, NackResident)
	c.s.Drain(9)
	last := c.again()
	c.answer(old, NotEnded)
	if _, ok := c.s.Unbind(9); ok || c.s.Drained(9) {
		t.Fatal("a NACK for an earlier transmission lets the owner be unloaded")
	}
	c.arrive(last, ArrivalNew)
	c.answer(c.r.Refuse(otherCard, 0, NackResident), NotEnded)
	c.now += c.s.cfg.Timeout
	if found := c.scan(); len(found) != 0 || !c.s.Drained(9) {
		t.Fatalf("after the latest NACK a scan finds %+v, drained %v", found, c.s.Drained(9))
	}
	if p, ok := c.s.Unbind(9); !ok || p.Packet != 2 || !c.s.Free(otherCard) {
		t.Fatalf("Unbind returns %+v, %v", p, ok)
	}
	if _, ok := c.s.Unbind(9); ok {
		t.Error("a packet is unbound twice")
	}
	h := c.send(5, 3) // of another owner, on the same channel
	c.answer(old, NotEnded)
	c.arrive(last, ArrivalDrop)
	c.arrive(h, ArrivalNew)
	c.arrive(last, ArrivalDrop) // a late copy, while the channel is held
	c.answer(c.r.Accept(otherCard, 0), EndedAcked)
}

// A packet yields its channel when it has a NACK for its last transmission, which was a time
// between two looks ago at least; what comes late finds the next packet unharmed.
func TestChannelYields(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	first := c.send(9, 2)
	c.arrive(first, ArrivalNew)
	old := c.r.Refuse(otherCard, 0, NackResident)
	last := c.again()
	c.answer(old, NotEnded)
	c.now += c.s.cfg.Scan
	if _, ok := c.s.Yield(c.now, otherCard); ok {
		t.Fatal("a NACK for an earlier transmission frees a channel")
	}
	c.arrive(last, ArrivalNew)
	c.answer(c.r.Refuse(otherCard, 0, NackOverrun), NotEnded)
	if _, ok := c.s.Yield(c.now-1, otherCard); ok {
		t.Fatal("a packet yields sooner than a time between two looks after it was sent")
	}
	if p, ok := c.s.Yield(c.now, otherCard); !ok || p.Packet != 2 || p.Owner != 9 || !c.s.Free(otherCard) || c.s.Stats().Yielded != 1 {
		t.Fatalf("Yield returns %+v, %v", p, ok)
	}
	if _, ok := c.s.Yield(c.now, otherCard); ok || !c.s.Drained(9) {
		t.Error("a packet yields twice, or its owner is believed to have it yet")
	}
	h := c.send(5, 3) // of another owner, on the same channel
	c.answer(old, NotEnded)
	c.arrive(last, ArrivalDrop)
	c.arrive(h, ArrivalNew)
	c.answer(c.r.Accept(otherCard, 0), EndedAcked)
	c.arrive(c.send(9, 2), ArrivalNew) // as a new one
	c.answer(c.r.Accept(otherCard, 0), EndedAcked)
}

func TestChannelPeerBeginsAnew(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	c.arrive(c.send(0, 2), ArrivalNew)
	c.r.Accept(otherCard, 0)
	c.r.Init(&c.s.cfg, 9000)
	c.answer(c.arrive(c.again(), ArrivalAnswer), EndedRestarted)
	c.initialised()

	c.s.Init(&c.r.cfg, 700) // and now the sender
	c.initialised()
	if st := c.r.Stats(); st.Initialised != 2 {
		t.Errorf("the channel was initialised %d times, want 2", st.Initialised)
	}
}

// TestChannelsBeginAnew: the first channel that finds out that a receiver has begun anew is the only one
// whose packet comes back.
func TestChannelsBeginAnew(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 3})
	deliver := func(packets ...uint32) {
		t.Helper()
		var on []Header
		for _, p := range packets {
			on = append(on, c.send(0, p))
		}
		for _, h := range on {
			if h.Init {
				c.answer(c.arrive(h, ArrivalAnswer), NotEnded)
			}
		}
		for _, x := range c.scan() {
			on[x.Header.Channel] = x.Header
		}
		for _, h := range on {
			c.arrive(h, ArrivalNew)
			c.answer(c.r.Accept(otherCard, h.Channel), EndedAcked)
		}
	}
	deliver(1, 2, 3)
	deliver(4, 5, 6)
	c.r.Init(&c.s.cfg, 9000)
	c.answer(c.arrive(c.send(0, 7), ArrivalAnswer), EndedRestarted)
	deliver(8, 9, 10)
	deliver(11, 12, 13)
	if st := c.r.Stats(); st.Initialised != 3 || st.Answers[NackEpoch] != 1 {
		t.Errorf("the new receiver has counted %+v, want 3 channels initialised and one packet sent back", st)
	}
}

// TestChannelForgotten: a number that is given to another card begins anew, both ways, and what
// the former card sends on is not taken.
func TestChannelForgotten(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	c.r.Forget(otherCard)
	c.answer(c.arrive(c.send(0, 2), ArrivalAnswer), EndedRestarted)
	c.initialised()
	c.s.Forget(otherCard)
	c.initialised()
}

func TestChannelHeldWhileWritten(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	c.arrive(c.send(0, 2), ArrivalNew)
	last := c.again()
	c.arrive(last, ArrivalDrop)
	a := c.r.Refuse(otherCard, 0, NackMemory)
	if a.Stamp != last.Stamp {
		t.Errorf("the NACK echoes stamp %d, want that of the latest transmission, %d", a.Stamp, last.Stamp)
	}
	c.s.Drain(0)
	c.answer(a, NotEnded)
	if !c.s.Drained(0) {
		t.Error("the owner is not drained after the latest NACK")
	}
}

func TestChannelAbandoned(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 4, Cards: 8, Owners: 8})
	for i := range 4 {
		c.send(i/2, uint32(10+i))
	}
	for i := range 2 {
		if p, ok := c.s.Abandon(0); !ok || p.Packet != uint32(10+i) || p.End != EndedAbandoned {
			t.Errorf("Abandon returns %+v, %v, want packet %d", p, ok, 10+i)
		}
	}
	if _, ok := c.s.Abandon(0); ok {
		t.Error("an owner has more packets than were sent")
	}
	for i := range 2 {
		if p, ok := c.s.AbandonCard(otherCard); !ok || p.Packet != uint32(12+i) {
			t.Errorf("AbandonCard returns %+v, %v, want packet %d", p, ok, 12+i)
		}
	}
	if _, ok := c.s.AbandonCard(otherCard); ok || c.s.UnderWay(otherCard) != 0 || c.s.Deadline() != math.MaxInt64 {
		t.Error("there are packets under way after all were abandoned")
	}
}

func TestChannelScanLooksWherePacketsAre(t *testing.T) {
	c := newChannelPair(t, Config{Cards: 256, Channels: 8})
	c.send(0, 1)
	c.send(0, 2)
	c.s.Send(c.now, 200, 0, 3)
	c.now += c.s.cfg.Timeout
	if n := len(c.scan()); n != 3 {
		t.Errorf("a scan finds %d packets, want 3", n)
	}
	if st := c.s.Stats(); st.Looks != 3 || st.Scans != 1 {
		t.Errorf("%d scans have looked at %d channels, want one at 3", st.Scans, st.Looks)
	}
}

func TestChannelAllocatesNothing(t *testing.T) {
	c := newChannelPair(t, Config{Channels: 1})
	c.initialised()
	n := testing.AllocsPerRun(100, func() {
		h := c.s.Send(c.now, otherCard, 0, 1)
		c.r.Arrive(otherCard, h)
		c.s.OnAnswer(otherCard, c.r.Refuse(otherCard, 0, NackOverrun))
		c.now += c.s.cfg.Timeout
		for p, more := c.s.Scan(c.now); more; p, more = c.s.Scan(c.now) {
			h = p.Header
		}
		c.r.Arrive(otherCard, h)
		c.s.OnAnswer(otherCard, c.r.Accept(otherCard, 0))
	})
	if n != 0 {
		t.Errorf("a message that is sent twice costs %v allocations, want none", n)
	}
}

func TestChannelConfigIsChecked(t *testing.T) {
	var none *Config
	if err := none.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{
		{Cards: -1}, {Channels: maxChannels + 1}, {Owners: 1<<16 + 1}, {Timeout: -1}, {Scan: -1}, {Tries: 256},
	} {
		if err := c.Validate(); !errors.Is(err, errConfig) {
			t.Errorf("%+v: %v, want %v", c, err, errConfig)
		}
	}
	if n := none.Size(); n > 64<<10 {
		t.Errorf("the tables take %d bytes, want a quarter of a card's memory at most", n)
	}
}

// TestChannelTakesAnything has headers and answers that nobody has sent arrive: they may
// not cause a panic, and may not disturb what is counted.
func TestChannelTakesAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cfg := Config{Cards: 4, Channels: 3, Owners: 4}
	var s Sender
	var r Receiver
	s.Init(&cfg, 1)
	r.Init(&cfg, 1)
	header := func() Header {
		return Header{
			Channel: uint8(rng.IntN(5)), Bit: uint8(rng.IntN(3)), Init: rng.IntN(2) == 0,
			Epoch: uint32(rng.IntN(6)), Stamp: uint32(rng.IntN(6)) - 1,
		}
	}
	for i := range 200_000 {
		switch card := rng.IntN(6) - 1; rng.IntN(6) {
		case 0:
			if s.Free(card) {
				s.Send(int64(i), card, rng.IntN(4), uint32(i))
			}
		case 1:
			s.Scan(int64(i) * 1_000_000)
		case 2:
			s.Unbind(rng.IntN(4))
		case 3:
			s.OnAnswer(card, Answer{header(), AnswerKind(rng.IntN(12)), uint32(rng.IntN(6))})
		default:
			h := header()
			if v, _ := r.Arrive(card, h); v == ArrivalNew && rng.IntN(2) == 0 {
				r.Accept(card, h.Channel)
			} else if v == ArrivalNew {
				r.Refuse(card, h.Channel, NackResident)
			}
		}
		under, owned := 0, 0
		for card := range 4 {
			under += s.UnderWay(card)
			owned += int(s.owners[card].under)
		}
		if under != s.under || owned != s.under {
			t.Fatalf("after %d calls %d packets are under way by card, %d by owner, %d in all", i, under, owned, s.under)
		}
	}
}

// TestChannelAwaits: an answer to a packet that is under way is told from all others, and to ask
// changes nothing.
func TestChannelAwaits(t *testing.T) {
	c := newChannelPair(t, Config{})
	wants := func(a Answer, card int, want bool) {
		t.Helper()
		before := c.s.Stats()
		if got := c.s.Awaits(card, a); got != want || c.s.Stats() != before {
			t.Fatalf("answer %+v of card %d: awaited %v, want %v", a, card, got, want)
		}
	}
	c.initialised()
	c.arrive(c.send(0, 2), ArrivalNew)
	ack := c.r.Accept(otherCard, 0)
	wants(ack, otherCard, true)
	wants(ack, otherCard+1, false)
	wants(ack, 1<<20, false)
	for _, forge := range []func(x *Answer){
		func(x *Answer) { x.Epoch++ },
		func(x *Answer) { x.Stamp += 2 },
		func(x *Answer) { x.Bit ^= 1 },
		func(x *Answer) { x.Init = true },
		func(x *Answer) { x.Channel = maxChannels },
		func(x *Answer) { x.Kind = 0 },
		func(x *Answer) { x.Kind = NackInit },
	} {
		x := ack
		forge(&x)
		wants(x, otherCard, false)
	}
	c.answer(ack, EndedAcked)
	wants(ack, otherCard, false)
}

// TestBackoff: without an answer the time between transmissions doubles twice, if Backoff says so.
func TestBackoff(t *testing.T) {
	for backoff, want := range map[int][]int64{
		0: {100, 200, 300, 400, 500, 600, 700},
		2: {100, 200, 400, 600, 1000, 1400, 1800},
	} {
		var s Sender
		s.Init(&Config{Timeout: 100, Scan: 1, Backoff: backoff}, 1)
		s.Send(0, 1, 0, 7)
		var at []int64
		for now := int64(1); len(at) < len(want); now++ {
			for {
				if _, more := s.Scan(now); !more {
					break
				}
				at = append(at, now)
			}
		}
		if !slices.Equal(at, want) {
			t.Errorf("with Backoff %d it is sent again at %d, want %d", backoff, at, want)
		}
	}
}
