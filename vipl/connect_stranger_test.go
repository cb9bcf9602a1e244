package vipl_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// stranger sends frames to a in b's name. It knows the addresses and the tags, but has
// seen no sequence number.
type stranger struct {
	*duo
	rng  *rand.Rand
	like ethertype.Header // of a frame from b to a
	tag  uint32           // of the frames from a to b
}

func newStranger(t *testing.T, level reliability.Level) *stranger {
	attr := &vipl.Attributes{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level.Reliable()}
	s := &stranger{duo: newDuo(t, attr, attr), rng: rand.New(rand.NewPCG(1, uint64(level)))}
	s.post(s.a, 8)
	s.post(s.b, 8)
	s.send(s.b, 8)
	s.like = s.last(0)
	s.send(s.a, 8)
	s.tag = s.last(1).Tag
	s.run()
	s.took1(s.a)
	s.took1(s.b)
	return s
}

// last returns the header of the frame that has come to a side last.
func (s *stranger) last(side int) (h ethertype.Header) {
	s.t.Helper()
	l := s.links[side]
	if _, err := h.Parse(l.slots[(l.tail-1)%memSlots][:l.lens[(l.tail-1)%memSlots]]); err != nil {
		s.t.Fatal(err)
	}
	return h
}

// took1 wants one message of 8 bytes to have come.
func (s *stranger) took1(v *vipl.VI) {
	s.t.Helper()
	if d, err := v.RecvDone(); err != nil || d.Length != 8 {
		s.t.Fatal("no message:", err)
	}
}

// throw lets a take in a frame of a kind, right but for its numbers, which are seq and
// ack away from those of the last honest frame.
func (s *stranger) throw(kind ethertype.Kind, seq, ack ethertype.Seq) {
	s.t.Helper()
	h := s.like
	h.Kind, h.Seq, h.Ack, h.Sack = kind, h.Seq+seq, h.Ack+ack, 0
	body := make([]byte, 40)
	switch kind {
	case ethertype.KindData:
		h.Msg++
		h.Length = uint32(len(body))
	case ethertype.KindDisconnect:
		body = body[:1]
	case ethertype.KindReset:
		binary.BigEndian.PutUint32(body, s.tag)
		h.Tag = 0
	case ethertype.KindRetry:
		h.Sack = s.rng.Uint64()
	case ethertype.KindProbe:
		body = nil
	}
	s.links[1].Send([]transport.Frame{control(h, body)})
	s.na.Poll()
}

// far returns a distance that no frame of the connection has.
func (s *stranger) far() ethertype.Seq { return ethertype.Seq(s.rng.Uint32()>>1) | 1<<20 }

// ofConnections are the kinds that concern a connection.
var ofConnections = []ethertype.Kind{ethertype.KindData, ethertype.KindRDMAWrite, ethertype.KindRDMARead, ethertype.KindReadData, ethertype.KindAck,
	ethertype.KindDisconnect, ethertype.KindReset, ethertype.KindAccept, ethertype.KindReject, ethertype.KindProbe, ethertype.KindProbeAck}

// TestStrangerWithTag: whoever has found out the tags, and no number, can neither end a
// connection, nor have it take or send anything, nor be a sign of life of the peer.
func TestStrangerWithTag(t *testing.T) {
	for _, level := range levels {
		for _, kind := range ofConnections {
			t.Run(fmt.Sprint(level, "/", kind), func(t *testing.T) {
				s := newStranger(t, level)
				s.post(s.a, 100)
				sent, at := s.na.Snapshot().TxFrames, s.na.Now()
				for i := range 100 {
					*s.links[0].clock += int64(time.Millisecond)
					seq := s.far()
					if i%2 == 0 && !level.Reliable() {
						seq = 1 // what is next: on this level it proves nothing
					}
					s.throw(kind, seq, s.far())
					if s.a.State() != vipl.StateConnected {
						t.Fatalf("frame %d ended the connection: %v", i, s.a.Err())
					}
				}
				after := s.na.Snapshot()
				if heard := after.VIs[0].LastHeard; heard < s.na.Now()-at-int64(time.Millisecond) {
					t.Errorf("the peer counts as heard %v ago", time.Duration(heard))
				}
				if after.TxFrames != sent {
					t.Errorf("%d frames were sent in answer", after.TxFrames-sent)
				}
				if d, err := s.a.RecvDone(); err != vipl.ErrNotDone {
					t.Errorf("a message was delivered: %v, %v", d, err)
				}
				s.send(s.b, 8)
				s.run()
				s.took1(s.a)
				s.alive()
			})
		}
	}
}

// TestStrangerEnds: half of what a Disconnect says is enough, because the two sides of a
// connection that ends need not agree any more.
func TestStrangerEnds(t *testing.T) {
	for name, numbers := range map[string][2]ethertype.Seq{"Sequence": {1, 1 << 30}, "Acknowledgement": {1 << 30, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, reliability.ReliableDelivery)
			s.throw(ethertype.KindDisconnect, numbers[0], numbers[1])
			if s.a.State() != vipl.StateError {
				t.Error("the Disconnect is not believed")
			}
		})
	}
}

// TestStrangerInHandshake: nor can the attempt to connect be ended, or be led elsewhere.
func TestStrangerInHandshake(t *testing.T) {
	for _, kind := range []ethertype.Kind{ethertype.KindAccept, ethertype.KindReject, ethertype.KindRetry, ethertype.KindDisconnect,
		ethertype.KindReset, ethertype.KindProbe, ethertype.KindProbeAck} {
		t.Run(kind.String(), func(t *testing.T) {
			s := newStranger(t, reliability.ReliableDelivery)
			v := s.idle(s.na)
			info := []byte(nil)
			s.links[0].onSend = func(frame []byte) { info = append(info, frame[ethertype.HeaderSize:]...) }
			to := ethertype.Addr{MAC: s.nb.Addr().MAC, Port: service}
			if err := v.ConnectStart(to, nil); err != nil {
				t.Fatal(err)
			}
			s.links[0].onSend = nil
			h := ethertype.Header{Dst: v.Local().MAC, Src: to.MAC, DstPort: v.Local().Port, SrcPort: to.Port, Kind: kind,
				Tag: binary.BigEndian.Uint32(info[8:]), Ack: 5, Sack: 7}
			sent := s.na.Snapshot().TxFrames
			for range 10 {
				s.links[1].Send([]transport.Frame{control(h, info)})
				s.na.Poll()
				if err := v.ConnectDone(); err != vipl.ErrNotDone {
					t.Fatalf("the attempt ended: %v", err)
				}
			}
			if n := s.na.Snapshot().TxFrames - sent; n > 0 {
				t.Errorf("%d frames were sent in answer", n)
			}
		})
	}
}

// TestStrangerAfterTheEnd: nor can somebody have a side that has left believe that its
// peer knows.
func TestStrangerAfterTheEnd(t *testing.T) {
	for _, level := range levels {
		for _, kind := range []ethertype.Kind{ethertype.KindDisconnect, ethertype.KindReset} {
			t.Run(fmt.Sprint(level, "/", kind), func(t *testing.T) {
				s := newStranger(t, level)
				if err := s.a.Disconnect(); err != nil {
					t.Fatal(err)
				}
				s.links[1].head, s.links[1].lent = s.links[1].tail, 0 // is lost
				for range 10 {
					s.throw(kind, s.far(), s.far())
				}
				disconnects := 0
				s.links[0].onSend = func(frame []byte) {
					if mutant.Kind(frame) == ethertype.KindDisconnect {
						disconnects++
					}
				}
				if s.na.Close(); disconnects == 0 {
					t.Error("the peer is not told any more")
				}
			})
		}
	}
}

// TestLooseRecovers: on the unreliable level a frame whose own number, or that of its
// message, is far ahead loses none of those that follow, or a few.
func TestLooseRecovers(t *testing.T) {
	for name, c := range map[string]struct {
		frames, lost int
		seq, msg     ethertype.Seq
	}{
		"Frame":   {1, 0, 1 << 30, 0},
		"Frames":  {10, 4, 1 << 30, 1 << 30},
		"Message": {1, 1, 1, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, reliability.Unreliable)
			for range 40 {
				s.post(s.a, 8)
			}
			for i := range c.frames {
				h := s.like
				h.Kind, h.Flags, h.Length, h.Count = ethertype.KindData, ethertype.FlagLast, 8, 1
				h.Seq, h.Msg = h.Seq+c.seq+ethertype.Seq(i), h.Msg+c.msg+ethertype.Seq(i)
				s.links[1].Send([]transport.Frame{control(h, make([]byte, 8))})
			}
			s.run()
			for d, _ := s.a.RecvDone(); d != nil; d, _ = s.a.RecvDone() {
			}
			got := 0
			for range 20 {
				s.send(s.b, 8)
				s.run()
				if d, _ := s.a.RecvDone(); d != nil {
					got++
				}
			}
			if got < 20-c.lost {
				t.Errorf("%d of 20 messages were received, want all but %d", got, c.lost)
			}
		})
	}
}

// real is a link that is not in virtual time.
type real struct{ transport.Link }

func (l real) Info() transport.Info {
	info := l.Link.Info()
	info.Virtual = false
	return info
}

// TestSeedOfReal: over a real link nobody can have the NIC's numbers by its seed, and
// those that it tells everybody tell no others.
func TestSeedOfReal(t *testing.T) {
	seen := map[uint64]bool{}
	for range 3 {
		here, _ := memPair(1500)
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: real{here}, Seed: 1, NoService: true})
		if err != nil {
			t.Fatal(err)
		}
		numbers := []uint64{n.Query().Incarnation}
		here.onSend = func(frame []byte) {
			var h ethertype.Header
			if b, err := h.Parse(frame); err == nil && h.Kind == ethertype.KindRequest {
				numbers = append(numbers, binary.BigEndian.Uint64(b[8:])) // tag and first sequence number
			}
		}
		for range 3 {
			v, err := n.CreateVI(nil, nil, nil)
			if err == nil {
				err = v.ConnectStart(ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, Port: service}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			v.Close()
		}
		if len(numbers) != 4 {
			t.Fatal(numbers)
		}
		for _, x := range numbers {
			if seen[x] {
				t.Errorf("%#x comes again with the seed", x)
			}
			seen[x] = true
		}
		n.Close()
	}
}
