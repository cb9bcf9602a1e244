package endpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// siege is how many mutated messages the tests of this file send together.
const siege = 1_000_000

// sieges is how many seeds each of the two runs under. In the short form it is one, and
// together they send a tenth.
const sieges = 20

// share returns how many messages are sent under one seed.
func share() int {
	if !need.Full() {
		return siege / 100 // under one seed
	}
	return siege / 2 / sieges
}

// account wants what has arrived at a node to be counted once for each message
// in it. Those of some kinds are taken without that, if they come at the right
// moment; so are those of these kinds that were held before.
func account(w *world, n *endpoint.Node, before tally, sent []byte, silent func(kind uint8) bool) error {
	parts, rest := endpoint.Parts(sent)
	most, least := len(parts), len(parts)
	if len(rest) > 0 {
		most, least = most+1, least+1
	}
	for _, p := range parts {
		if kind := p[0] &^ endpoint.Spaced; kind == endpoint.KindSkip || silent(kind) {
			least--
		}
	}
	got := 0
	for range 200 {
		now := tallyOf(n, silent)
		switch got = int(now.taken - before.taken); {
		case now.violations > before.violations:
			return nil
		case got > most:
			return fmt.Errorf("counted %d times, want %d..%d: %x", got, least, most, sent)
		case got >= least:
			return nil
		}
		w.Sleep(10 * time.Microsecond)
	}
	if got >= least-before.silent {
		return nil
	}
	return fmt.Errorf("arrived and was counted %d times, want %d: %x", got, least, sent)
}

// tally is what a node has counted.
type tally struct {
	taken, violations uint64
	silent            int // messages that it holds and may take in silence
}

// tallyOf returns what n has counted, with the messages that it holds until it is their
// turn.
func tallyOf(n *endpoint.Node, silent func(kind uint8) bool) tally {
	sure, perhaps := endpoint.Held(n, silent)
	s := n.Stats()
	return tally{taken(&s) + sure + perhaps, s.Violations, int(perhaps)}
}

// taken is how many messages have been handled, refused, taken as refusals, or
// dropped.
func taken(s *endpoint.Stats) uint64 {
	n := s.Requests + s.Replies + s.Strays + s.Returns
	for _, k := range s.Refused {
		n += k
	}
	return n
}

const hostileTag = 0x1234_5678_9abc_def1

// fortress is the server that an intruder attacks. Its segment lies in the midst
// of other memory.
type fortress struct {
	arena, segment []byte
	ran, returned  int
	wrong          error
}

func (f *fortress) setup(s *party) {
	f.arena = bytes.Repeat([]byte{0xA5}, 30_000)
	f.segment = f.arena[10_000:20_000:20_000]
	s.ep.SetTag(hostileTag)
	s.ep.SetSegment(f.segment)
	s.ep.SetReturnHandler(func(*endpoint.Returned) { f.returned++ })
	for h := uint8(10); h < 14; h++ {
		s.ep.SetHandler(h, func(t endpoint.Token, args []uint32, data []byte) {
			f.ran++
			if len(args) > endpoint.MaxShort || len(data) > len(f.segment) {
				f.wrong = fmt.Errorf("a handler got %d arguments and %d bytes", len(args), len(data))
			}
			switch h {
			case 10:
				t.Reply(hReply, args...)
			case 11:
				t.ReplyMedium(hReply, data[:min(len(data), 300)], args...)
			case 12:
				t.ReplyBulk(hReply, f.segment[:5000], 0, args...)
			}
		})
	}
	endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
}

// intact wants the memory around the segment as it was, and without the tag that
// in it too.
func (f *fortress) intact(knows bool) error {
	from, to := 10_000, 20_000
	if !knows {
		from = to
	}
	for i, c := range f.arena {
		if c != 0xA5 && (i < from || i >= to) {
			return fmt.Errorf("byte %d was written, %d outside the segment or without the tag", i, i-10_000)
		}
	}
	if !knows && f.ran > 0 {
		return fmt.Errorf("%d handlers ran without the tag", f.ran)
	}
	return f.wrong
}

// TestHostileClient: whatever a client sends, by messages and by RDMA writes,
// is counted, breaks nothing, and writes nothing outside the segment; without
// the tag no handler runs and nothing is written at all. Honest clients are
// served as if nothing were.
func TestHostileClient(t *testing.T) {
	seeds(t, sieges, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed})
		f, knows, tag := &fortress{}, seed%2 == 0, endpoint.Tag(hostileTag)
		if !knows {
			tag++
		}
		var server *party
		w.pair(endpoint.Config{PeerTimeout: time.Second}, func(s *party) {
			server = s
			f.setup(s)
		}, func(n *endpoint.Node, c *party) error {
			to, _, _ := c.ep.Translation(0)
			c.ep.Map(1, to, hostileTag)
			x, err := newIntruder(n.NIC(), seed)
			if err != nil {
				return err
			}
			if err := x.attack(w, serverNode(server), c.ep.Name(), to, tag, share(), knows); err != nil {
				return err
			}
			for i := range int32(10) {
				if got, err := endpoint.Call[int32, int32](bg, c.ep, 1, 1, i); err != nil || got != i+1 {
					return fmt.Errorf("an honest call after it: %d, %w", got, err)
				}
			}
			if panics := serverNode(server).Stats().Panics; panics > 0 {
				return fmt.Errorf("%d panics", panics)
			}
			return nil
		})
		return errors.Join(w.run(), f.intact(knows))
	})
}

// attack sends so many mutants to an endpoint.
func (x *intruder) attack(w *world, server *endpoint.Node, from, to endpoint.Name, tag endpoint.Tag, messages int, knows bool) error {
	for i, connected := 0, false; i < messages; i++ {
		if !connected {
			if err := x.newVI(); err != nil {
				return err
			}
			slots := 4
			if i%2 == 0 { // enough for batches
				slots = batchCredits
			}
			if err := x.vi.Connect(bg, to.Addr, endpoint.HelloFor(from, to, slots)); err != nil {
				return err
			}
		}
		if len(x.windows) > 0 && x.rng.IntN(4) == 0 {
			connected = x.writeBatch(tag)
			w.Sleep(20 * time.Microsecond)
			continue
		}
		if knows && x.rng.IntN(50) == 0 {
			connected = x.write()
			w.Sleep(20 * time.Microsecond)
			continue
		}
		msg := x.mutant(tag, endpoint.ClientKinds)
		if parts, _ := endpoint.Parts(msg); len(parts) > 1 {
			i += len(parts) - 1
		}
		silent := func(kind uint8) bool {
			return kind == endpoint.KindAsk || kind == endpoint.KindLanding || knows && (kind == endpoint.KindAnnounce || kind == endpoint.KindGet || kind == endpoint.KindClear)
		}
		before := tallyOf(server, silent)
		if connected = x.say(msg); !connected {
			w.Sleep(20 * time.Microsecond)
			continue
		}
		if err := account(w, server, before, msg, silent); err != nil {
			return err
		}
	}
	x.vi.Close()
	return nil
}

// TestImpatientClient: a client that goes on in a slot before the server knows that the last
// answers have arrived is served when that is known: an acknowledgement may be late, and
// the server has two buffers for the answers of a slot. What comes in the slot meanwhile is
// dropped. A client that goes beyond its credits loses its connection.
func TestImpatientClient(t *testing.T) {
	w := newWorld(sim.Options{Bandwidth: 10_000_000}) // the answers of 4 KB are slower than the requests
	var server *party
	ran := 0
	w.pair(endpoint.Config{}, func(s *party) {
		server = s
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { ran++; t.ReplyMedium(hReply, make([]byte, 4000)) })
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
	}, func(n *endpoint.Node, c *party) error {
		x, err := c.intrude(n, 4)
		if err != nil {
			return err
		}
		request := func(use uint32) {
			msg := x.mem[use*100:][:100]
			msg = msg[:copy(msg, endpoint.Message(endpoint.ClientKinds[0], hEcho, 0, use, 0, 0, 0, 0, nil, nil))]
			x.vi.PostSend(&vipl.Descriptor{Segs: []vipl.Segment{{Data: msg, Handle: x.h}}})
			w.Sleep(500 * time.Microsecond) // the answer leaves, and takes longer
			n.NIC().Poll()
		}
		for use := range uint32(4) {
			request(1 + use)
		}
		if s := serverNode(server).Stats(); s.Violations+s.Broken != 0 || ran != 2 { // there are two buffers for answers
			return fmt.Errorf("%d requests were handled, %d violations, %d connections broke", ran, s.Violations, s.Broken)
		}
		for range 10 {
			w.Sleep(5 * time.Millisecond) // the answers arrive
			n.NIC().Poll()
		}
		if s := serverNode(server).Stats(); s.Violations+s.Broken != 0 || s.Strays != 1 || ran != 3 {
			return fmt.Errorf("later: %d requests were handled, %d strays, %d violations, %d connections broke", ran, s.Strays, s.Violations, s.Broken)
		}
		request(4 + 4) // with four credits, and number 4 to come
		w.Sleep(5 * time.Millisecond)
		if s := serverNode(server).Stats(); s.Violations != 1 || s.Broken != 1 || ran != 3 {
			return fmt.Errorf("in the end: %d requests were handled, %d violations, %d connections broke", ran, s.Violations, s.Broken)
		}
		if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, 5); err != nil || got != 6 {
			return fmt.Errorf("an honest call after it: %d, %w", got, err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestHelloLimits: nobody gets a connection of a shape that makes no sense, or
// that is larger than the limits.
func TestHelloLimits(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(*party) {}, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		for _, x := range []struct {
			at   int
			with []byte
			ok   bool
		}{
			{0, nil, true}, {0, []byte{1}, false}, // the version
			{28, []byte{0, 0}, false}, {28, []byte{1, 0}, true}, {28, []byte{0, 4}, true}, {28, []byte{1, 4}, false}, // slots
			{30, []byte{4, 0}, true}, {30, []byte{5, 0}, false}, // small ones of 4
			{32, []byte{0, 0, 0, 0}, false}, {32, []byte{0, 0, 1, 0}, true}, {32, []byte{1, 0, 1, 0}, false}, {32, []byte{0, 0, 0, 128}, false},
		} {
			hello := endpoint.HelloFor(c.ep.Name(), to, 4)
			copy(hello[x.at:], x.with)
			vi, err := n.NIC().CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := vi.Connect(bg, to.Addr, hello); x.ok != (err == nil) || !x.ok && !errors.Is(err, vipl.ErrReject) {
				return fmt.Errorf("with %x at %d: %w", x.with, x.at, err)
			}
			vi.Close()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHostileHello: a request for a connection that makes no sense is refused and
// counted.
func TestHostileHello(t *testing.T) {
	w := newWorld(sim.Options{})
	refused, accepted := 0, 0
	var server *party
	w.pair(endpoint.Config{}, func(s *party) { server = s }, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		rng := rand.New(rand.NewPCG(5, 5))
		for i := range 2000 {
			from := c.ep.Name()
			if i == 0 { // all is well, but that another host is named
				from.Addr.MAC[5] ^= 1
			}
			hello := endpoint.HelloFor(from, to, 4)
			for range min(i, 1+rng.IntN(3)) {
				hello[rng.IntN(len(hello))] ^= 1 << rng.IntN(8)
			}
			if i > 0 {
				hello = hello[:len(hello)-rng.IntN(2)*rng.IntN(len(hello))]
			}
			vi, err := n.NIC().CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			switch err := vi.Connect(bg, to.Addr, hello); {
			case err == nil && i == 0:
				return errors.New("a name of another host was taken")
			case err == nil:
				accepted++
			case errors.Is(err, vipl.ErrReject):
				refused++
			default:
				return err
			}
			vi.Close()
		}
		if s := serverNode(server).Stats(); taken(&s) != uint64(refused) || s.Strays == 0 {
			return fmt.Errorf("%d were refused, and counted are %+v", refused, s)
		}
		return c.ep.Request(bg, 0, 1)
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	if refused < 500 || accepted < 100 { // the sender's name may be anything
		t.Errorf("%d refused, %d accepted", refused, accepted)
	}
}

// intruder is a program that speaks to a node by bare VIs, and sends what it
// likes.
type intruder struct {
	nic     *vipl.NIC
	vi      *vipl.VI
	mem     []byte
	h       vipl.MemHandle
	send    vipl.Descriptor
	recvs   [intruderReceives]vipl.Descriptor
	segs    [intruderReceives + 1][1]vipl.Segment
	rng     *rand.Rand
	heard   int               // messages
	uses    [5]uint32         // that the other side has named last, by slot
	top     uint32            // the highest of them
	sent    uint32            // the number of its last request, as it thinks
	window  [windowKnown]byte // that the other side has opened last
	landing [windowKnown]byte // the landing memory that it has given
	windows []byte            // that it has opened for batches
}

const (
	intruderReceives = 16
	windowKnown      = 12
)

func newIntruder(nic *vipl.NIC, seed uint64) (*intruder, error) {
	x := &intruder{nic: nic, mem: make([]byte, (intruderReceives+1)*endpoint.MessageSize), rng: rand.New(rand.NewPCG(seed, 3))}
	var err error
	x.h, err = nic.RegisterMem(x.mem, nil)
	return x, err
}

// intrude makes an intruder that is connected to what c has mapped first, as a client
// with so many slots.
func (c *party) intrude(n *endpoint.Node, slots int) (*intruder, error) {
	to, _, _ := c.ep.Translation(0)
	x, err := newIntruder(n.NIC(), 1)
	if err == nil {
		err = x.newVI()
	}
	if err == nil {
		err = x.vi.Connect(bg, to.Addr, endpoint.HelloFor(c.ep.Name(), to, slots))
	}
	return x, err
}

func (x *intruder) newVI() (err error) {
	if x.vi != nil {
		x.vi.Close()
	}
	x.send, x.windows, x.top, x.sent = vipl.Descriptor{}, nil, 0, 0
	if x.vi, err = x.nic.CreateVI(nil, nil, nil); err != nil {
		return err
	}
	for i := range x.recvs {
		part := x.mem[(i+1)*endpoint.MessageSize:][:endpoint.MessageSize]
		x.segs[i] = [1]vipl.Segment{{Data: part, Handle: x.h}}
		x.recvs[i] = vipl.Descriptor{Segs: x.segs[i][:]}
		if err := x.vi.PostRecv(&x.recvs[i]); err != nil {
			return err
		}
	}
	return nil
}

// say sends a message, sees it arrive, and takes what has come meanwhile. It
// reports false when the connection is gone.
func (x *intruder) say(msg []byte) bool {
	n := copy(x.mem[:endpoint.MessageSize], msg)
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:n], Handle: x.h}}
	x.send = vipl.Descriptor{Segs: x.segs[intruderReceives][:]}
	return x.post() && x.hear()
}

func (x *intruder) post() bool {
	if x.vi.PostSend(&x.send) != nil {
		return false
	}
	_, err := x.vi.SendWait(bg)
	return err == nil
}

// hear takes what has come, and learns from it how to be a better intruder.
func (x *intruder) hear() bool {
	for {
		d, err := x.vi.RecvDone()
		if errors.Is(err, vipl.ErrNotDone) || errors.Is(err, vipl.ErrQueueEmpty) {
			return true
		}
		if err != nil {
			return false
		}
		x.heard++
		if d.Status&vipl.StatusOpMask == vipl.StatusOpReceive {
			x.learn(d.Segs[0].Data[:d.Length])
		}
		if x.vi.PostRecv(d) != nil {
			return false
		}
	}
}

func (x *intruder) learn(b []byte) {
	if len(b) < endpoint.BaseSize {
		return
	}
	if slot := binary.LittleEndian.Uint16(b[4:]); int(slot) < len(x.uses) {
		x.uses[slot] = binary.LittleEndian.Uint32(b[8:])
		x.top = max(x.top, x.uses[slot])
	}
	switch b[0] {
	case endpoint.KindClear:
		copy(x.window[:], b[endpoint.BaseSize:])
	case endpoint.KindLanding:
		copy(x.landing[:], b[endpoint.BaseSize:])
	case endpoint.KindWindows:
		x.windows = bytes.Clone(b[endpoint.BaseSize:])
	}
}

// write writes to the memory that was opened last, or near it, and says for some
// slot that its data is there.
func (x *intruder) write() bool {
	to, slot, size := x.target()
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:size], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: true, Immediate: slot, Remote: to}
	return x.post() && x.hear()
}

// writeBatch writes mutants to a window for batches, or near it, and says for some
// window that they are there.
func (x *intruder) writeBatch(tag endpoint.Tag) bool {
	r := x.rng
	msg := x.mutant(tag, endpoint.ClientKinds)
	for more := r.IntN(4); more > 0 && len(msg) >= endpoint.BaseSize; more-- {
		msg = endpoint.Join(msg, x.mutant(tag, endpoint.ClientKinds))
	}
	n := copy(x.mem[:endpoint.MessageSize], msg)
	count := len(x.windows) / windowKnown
	known := x.windows[r.IntN(count)*windowKnown:]
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:n], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: r.IntN(8) > 0, Immediate: uint32(batchCredits + r.IntN(count+1)),
		Remote: vipl.RemoteSegment{Addr: binary.LittleEndian.Uint64(known) + uint64(r.IntN(3)*r.IntN(2)), Handle: vipl.MemHandle(binary.LittleEndian.Uint32(known[8:]))}}
	return x.post() && x.hear()
}

// target returns the window that was opened last, or a place near it, the number
// of some slot, and how much to write.
func (x *intruder) target() (to vipl.RemoteSegment, slot uint32, size int) {
	r := x.rng
	to.Addr = binary.LittleEndian.Uint64(x.window[:]) + uint64(r.IntN(3)*r.IntN(300)) - uint64(r.IntN(3)*r.IntN(300))
	to.Handle = vipl.MemHandle(binary.LittleEndian.Uint32(x.window[8:]))
	size = r.IntN(400)
	return to, uint32(r.IntN(6)), size
}

func (x *intruder) windowAddr() uint64 { return binary.LittleEndian.Uint64(x.window[:]) }

// mutant returns a message that is right, or nearly right, most of the time.
func (x *intruder) mutant(tag endpoint.Tag, kinds []uint8) []byte {
	r := x.rng
	kind := kinds[r.IntN(len(kinds))]
	if r.IntN(10) == 0 {
		kind = uint8(r.IntN(endpoint.Kinds))
	}
	slot := r.IntN(len(x.uses))
	use := x.uses[slot]
	if kind <= endpoint.KindGet || kind == endpoint.KindSkip && r.IntN(2) == 0 {
		use = x.number()
	}
	if r.IntN(8) == 0 {
		use = uint32(r.IntN(3))
	}
	length, data := x.content(kind)
	offset := uint64(0)
	if length > 0 {
		offset = r.Uint64N(5000)
	}
	if r.IntN(8) == 0 {
		offset, length = r.Uint64()>>r.IntN(64), r.Uint32()>>r.IntN(32)
	}
	msg := endpoint.Message(kind, uint8(10+r.IntN(4)), uint16(slot), use, tag, tag, offset, length, make([]uint32, r.IntN(4)), data)
	msg[3] = uint8(1 + r.IntN(10)) // the reason
	if r.IntN(8) == 0 {
		msg = endpoint.Join(msg, x.mutant(tag, kinds))
	}
	if r.IntN(2) == 0 {
		return msg
	}
	for range r.IntN(3) {
		msg[r.IntN(len(msg))] ^= 1 << r.IntN(8)
	}
	return msg[:len(msg)-r.IntN(2)*r.IntN(len(msg))]
}

// number returns the number of its next request, if all that it has sent as such were
// taken, or all those but a few last ones.
func (x *intruder) number() uint32 {
	if x.sent < x.top || x.rng.IntN(3) == 0 {
		x.sent = x.top
	}
	x.sent++
	return x.sent
}

// content returns the length that belongs into a message of some kind, and what
// follows its arguments.
func (x *intruder) content(kind uint8) (length uint32, data []byte) {
	r := x.rng
	junk := bytes.Repeat([]byte{0xEE}, r.IntN(200))
	switch kind {
	case endpoint.KindMedium, endpoint.KindReplyMedium:
		return 0, junk
	case endpoint.KindBulk, endpoint.KindReplyBulk:
		return uint32(len(junk)), junk
	case endpoint.KindAnnounce, endpoint.KindReplyAnnounce:
		return 1 + r.Uint32N(6000), nil
	case endpoint.KindGet:
		return r.Uint32N(6000), make([]byte, 8)
	case endpoint.KindClear:
		return 0, x.window[:]
	}
	return 0, nil
}
