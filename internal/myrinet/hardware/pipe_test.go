package hardware

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// pipe is one end of a segment of two, in memory, for one goroutine. It allocates nothing.
type pipe struct {
	peer  *pipe
	mac   ethertype.MAC
	mtu   int
	now   *int64
	ring  [256][]byte // frames that have come
	first int
	n     int
	lent  int
	room  int // frames that Send takes before the link is full; negative for no bound
	sent  int
}

// newPipes returns both ends.
func newPipes(now *int64, mtu int, id byte) (a, b *pipe) {
	a = &pipe{mac: ethertype.MAC{2, 0, 0, 0, id, 1}, mtu: mtu, now: now, room: -1}
	b = &pipe{mac: ethertype.MAC{2, 0, 0, 0, id, 2}, mtu: mtu, now: now, room: -1}
	a.peer, b.peer = b, a
	for i := range a.ring {
		a.ring[i], b.ring[i] = make([]byte, 0, mtu+14), make([]byte, 0, mtu+14)
	}
	return a, b
}

func (p *pipe) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		if p.room == 0 {
			return i, nil
		}
		p.room--
		p.sent++
		p.peer.put(&frames[i])
	}
	return len(frames), nil
}

func (p *pipe) put(f *transport.Frame) {
	if p.n == len(p.ring) {
		panic("the pipe is full")
	}
	at := &p.ring[(p.first+p.n)%len(p.ring)]
	*at = f.AppendTo((*at)[:0])
	p.n++
}

func (p *pipe) Recv(views [][]byte) (int, error) {
	p.first, p.n = (p.first+p.lent)%len(p.ring), p.n-p.lent
	p.lent = min(p.n, len(views))
	for i := range p.lent {
		views[i] = p.ring[(p.first+i)%len(p.ring)]
	}
	return p.lent, nil
}

func (p *pipe) Ready() bool            { return p.n > p.lent }
func (p *pipe) Wait(int64) error       { return nil }
func (p *pipe) Wake()                  {}
func (p *pipe) Now() int64             { return *p.now }
func (p *pipe) Stats() transport.Stats { return transport.Stats{} }
func (p *pipe) Close() error           { return nil }
func (p *pipe) Info() transport.Info {
	return transport.Info{Driver: "pipe", Interface: "pipe", MAC: p.mac, EtherType: ethertype.Fabric, Ports: CablePorts, MTU: p.mtu, Virtual: true}
}

// bench is a live switch of two ports with a card at each, driven by hand.
type bench struct {
	testing.TB
	now   int64
	sw    *LiveSwitch
	cards [2]*liveCard
	pipes [2]*pipe // the switch's ends
}

func newBench(t testing.TB, mtu int) *bench {
	b := &bench{TB: t, now: 1}
	var links []transport.Link
	opts := myrinet.LiveOptions{Seed: 1}
	for i := range b.cards {
		near, far := newPipes(&b.now, mtu, byte(i))
		b.pipes[i] = near
		links = append(links, near)
		c := &liveCard{}
		end, err := NewEnd(far, c, opts)
		if err != nil {
			t.Fatal(err)
		}
		c.end = end
		b.cards[i] = c
	}
	var err error
	if b.sw, err = NewLiveSwitch("s", links, opts); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		b.turn()
	}
	return b
}

// turn lets everybody poll once, and a millisecond pass.
func (b *bench) turn() {
	b.poll()
	b.now += int64(time.Millisecond)
}

func (b *bench) poll() {
	for i := range b.cards {
		if _, err := b.cards[i].end.Poll(); err != nil {
			b.Fatal(err)
		}
		if _, _, err := b.sw.poll(b.sw.port[i]); err != nil {
			b.Fatal(err)
		}
	}
}

// counter is a Host that only counts.
type counter struct{ got, sent int }

func (c *counter) Room(int) bool        { return true }
func (c *counter) Arrived([]byte, bool) { c.got++ }
func (c *counter) Sent()                { c.sent++ }

// TestLiveAllocations: none for a packet through a switch, of one frame or of several.
func TestLiveAllocations(t *testing.T) {
	for _, size := range []int{64, 5000} {
		b := newBench(t, 1500)
		var a, z counter
		b.cards[0].end.host, b.cards[1].end.host = &a, &z
		packet := AppendPacket(nil, myrinet.Route{1}, 1, payload(size))
		round := func() {
			want := z.got + 1
			if !b.cards[0].end.Send(packet) {
				t.Fatal("the packet before has not left")
			}
			for z.got < want {
				b.poll()
			}
			b.poll()
			b.now += 1000
		}
		for range 200 {
			round()
		}
		if n := testing.AllocsPerRun(1000, round); n != 0 {
			t.Errorf("%v allocations for a packet of %d bytes", n, size)
		}
	}
}

// TestLiveFull: a link that takes a frame now and then loses nothing.
func TestLiveFull(t *testing.T) {
	b := newBench(t, 256)
	for i := range 20 {
		b.cards[0].queue = append(b.cards[0].queue, AppendPacket(nil, myrinet.Route{1}, uint16(i), payload(i*300)))
	}
	b.pipes[1].room = 0
	for i := range 10_000 {
		b.cards[0].pump()
		b.pipes[1].room = i % 3
		b.poll()
		b.now += 1000
		b.pipes[0].room = -1
	}
	if got := len(b.cards[1].got); got != 20 {
		t.Fatalf("%d packets came: %+v", got, b.sw.Ports())
	}
	for i, p := range b.cards[1].got {
		if typ, data, err := ParsePacket(p); err != nil || int(typ) != i || len(data) != i*300 {
			t.Errorf("packet %d is of type %d, %d bytes, %v", i, typ, len(data), err)
		}
	}
	if b.sw.Ports()[1].Frames.Full == 0 {
		t.Error("the link was never full")
	}
}

// FuzzLiveFrames: whatever comes to a switch and to a card makes neither panic, leaves
// nothing behind, and packets pass afterwards. The input is frames, each a length byte
// and bytes that overwrite a valid frame's.
func FuzzLiveFrames(f *testing.F) {
	f.Add([]byte{3, 0x80, 1, 2, 3, 0x81, 1, 2, 3, 0x82, 9, 9, 9, 0x83})
	f.Add([]byte{0x90, 0, 0, 0, 7, 0xff, 1, 0, 0x40, 3, 0x10, 0x20})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBench(t, 256)
		for i := 0; len(data) >= 9; i++ {
			op := data[:9]
			data = data[9:]
			b.hostile(op)
			if i%4 == 3 {
				b.turn()
			}
		}
		step := 10 * time.Millisecond
		for i, end := 1, b.now+int64(15*time.Second); b.now < end; i++ {
			if i%50 == 0 && b.rests() == nil {
				step = 100 * time.Millisecond // what is left is what silence may end
			}
			b.turn()
			b.now += int64(step)
		}
		got := len(b.cards[1].got)
		b.cards[0].end.Send(AppendPacket(nil, myrinet.Route{1}, 1, payload(1000)))
		for range 10 {
			b.turn()
		}
		if len(b.cards[1].got) != got+1 {
			t.Fatalf("a packet does not pass afterwards: %+v", b.sw.Ports())
		}
		if err := b.rests(); err != nil {
			t.Fatal(err)
		}
	})
}

// rests returns why something is under way or left behind, nil if nothing is.
func (b *bench) rests() error {
	for i, p := range b.sw.port {
		if err := atRest(&p.cableEnd); err != nil {
			return fmt.Errorf("port %d: %w", i, err)
		}
		if user := b.sw.x.User(i); user >= 0 {
			return fmt.Errorf("port %d is used by %d", i, user)
		}
	}
	return nil
}

// hostile puts a frame on a cable that says of itself what op says: who sends it, with a
// true tag or not, of what kind, with numbers near the true ones.
func (b *bench) hostile(op []byte) {
	port := int(op[0]) & 1
	c := &b.sw.port[port].cableEnd
	at, from, tag := b.pipes[port], c.peer, pairTag(c.tag, c.peerTag)
	if op[0]&2 != 0 { // to the card
		c, at = &b.cards[port].end.cableEnd, b.pipes[port].peer
		from, tag = c.peer, pairTag(c.tag, c.peerTag)
	}
	if op[0]&4 != 0 {
		tag = uint32(op[1])
	}
	if op[0]&8 != 0 {
		from.MAC[5] = op[1]
	}
	h := framing.FabricHeader{
		Dst: c.self.MAC, Src: from.MAC, Type: ethertype.Fabric, Kind: framing.FabricPacket + framing.FabricKind(op[2]&3),
		DstPort: c.self.Port, SrcPort: from.Port, Tag: tag,
		Seq: c.in.next + ethertype.Seq(int8(op[3])), Credit: c.out.limit + ethertype.Seq(int8(op[4])),
		Packet: c.pass.number + ethertype.Seq(op[5]&3), Offset: uint32(op[6]), Length: uint32(op[7]) * 16, Size: uint16(op[8]),
	}
	if op[5]&4 != 0 {
		h.Offset = 0
	}
	if h.Kind == framing.FabricHello {
		h.Tag, h.Packet = uint32(op[6]), ethertype.Seq(c.tag)
		if op[5]&8 != 0 {
			h.Packet = 0
		}
	}
	if h.Kind != framing.FabricPacket {
		h.Size = 0
	}
	frame := transport.Frame{Head: make([]byte, ethertype.HeaderSize), Body: [][]byte{make([]byte, h.Size)}}
	h.Put(frame.Head)
	for i := range frame.Body[0] {
		frame.Body[0][i] = op[1]
	}
	if at.n < len(at.ring)-100 {
		at.put(&frame)
	}
}
