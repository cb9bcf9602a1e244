package reliability

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// pingPong takes one frame there and one back, as two engines do.
type pingPong struct {
	now  int64
	a, b struct {
		Sender
		Receiver
	}
}

func newPingPong() *pingPong {
	p := &pingPong{now: 1}
	p.a.Sender.Init(nil, 0)
	p.a.Receiver.Init(nil, 0)
	p.b.Sender.Init(nil, 0)
	p.b.Receiver.Init(nil, 0)
	return p
}

func (p *pingPong) round() {
	half(p.now, &p.a.Sender, &p.a.Receiver, &p.b.Sender, &p.b.Receiver)
	half(p.now+2000, &p.b.Sender, &p.b.Receiver, &p.a.Sender, &p.a.Receiver)
	p.now += 4000
}

// half takes a frame from one side to the other, with all the calls that an
// engine makes on the way.
func half(now int64, tx *Sender, txr *Receiver, rxs *Sender, rx *Receiver) {
	if tx.Room(now) == 0 {
		panic("no room")
	}
	seq, ackNow := tx.Push(now, Sent{Size: 64, Count: 1}, false)
	ack, sack := txr.Ack()
	txr.AckSent(now, true)
	rxs.OnAck(now+2000, ack, sack, nil)
	if rx.Check(seq) == Accept {
		rx.Accept(now+2000, seq, ackNow, false)
	}
	if rxs.Deadline() < now || rx.AckDue(now+2000) {
		panic("a timer or an acknowledgement is due in a ping-pong")
	}
}

// stream pushes a 1 MiB message at MTU 1500, acknowledged every 16 frames,
// with one loss in it when lossy.
func stream(tx *Sender, rx *Receiver, now int64, lossy bool) int64 {
	const frames = 720
	missing, hole := 0, ethertype.Seq(0)
	for sent := 0; sent < frames || tx.InFlight() > 0; {
		for ; sent < frames && tx.Room(now) > 0; sent++ {
			seq, ackNow := tx.Push(now, Sent{}, false)
			if lossy && sent == frames/2 {
				missing, hole = 1, seq
				continue
			}
			rx.Accept(now, seq, ackNow, false)
		}
		if _, seq, ok := tx.Retransmit(now); ok && missing == 1 && seq == hole {
			rx.Accept(now, seq, true, false)
			missing = 0
		}
		now += 20_000
		ack, sack := rx.Ack()
		var buf [MaxSack]byte
		tx.OnAck(now, ack, sack, rx.AppendSack(buf[:0]))
		rx.AckSent(now, false)
		if now >= tx.Deadline() && tx.OnTimer(now) != nil {
			panic("unreachable")
		}
	}
	return now
}

func TestNoAllocations(t *testing.T) {
	p := newPingPong()
	p.round()
	if n := testing.AllocsPerRun(1000, p.round); n != 0 {
		t.Errorf("a ping-pong allocates %v times", n)
	}
	var tx Sender
	var rx Receiver
	tx.Init(nil, 0)
	rx.Init(nil, 0)
	now := stream(&tx, &rx, 1, true)
	if n := testing.AllocsPerRun(100, func() { now = stream(&tx, &rx, now, true) }); n != 0 {
		t.Errorf("a stream with a loss allocates %v times", n)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []*Config{nil, {}, {Window: 1}, {Window: MaxWindow, MinRTO: 2_000_000_000}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []*Config{
		{Window: MaxWindow + 1}, {Window: -1}, {Window: 4, InitialWindow: 5}, {AckDelay: -1}, {AckEvery: -1},
		{MinRTO: 1}, {MinRTO: 2_000_000, MaxRTO: 1_000_000}, {MaxTries: -1}, {MaxRTO: 1 << 62},
	} {
		if err := c.Validate(); !errors.Is(err, errConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	full := (*Config)(nil).Resolve()
	if full.Resolve() != full {
		t.Error("a whole Config is copied")
	}
}

func TestLevels(t *testing.T) {
	for level, want := range map[Level]string{0: "Level(0)", Unreliable: "unreliable", ReliableDelivery: "delivery", 3: "Level(3)", ReliableReception: "reception"} {
		if got := level.String(); got != want {
			t.Errorf("%d: %q, want %q", level, got, want)
		}
		if level.Valid() != (level == 1 || level == 2 || level == 4) || level.Reliable() != (level == 2 || level == 4) {
			t.Errorf("%v: valid %v, reliable %v", level, level.Valid(), level.Reliable())
		}
	}
}

func BenchmarkPingPong(b *testing.B) {
	p := newPingPong()
	b.ReportAllocs()
	for b.Loop() {
		p.round()
	}
}

func BenchmarkStreamMiB(b *testing.B) {
	var tx Sender
	var rx Receiver
	tx.Init(nil, 0)
	rx.Init(nil, 0)
	now := int64(1)
	b.ReportAllocs()
	for b.Loop() {
		now = stream(&tx, &rx, now, false)
	}
}
