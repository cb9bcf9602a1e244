package engine

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/reliability"
)

// joined returns frames with the given headers, and payloads of zeros, in one Ethernet frame.
func joined(headers ...ethertype.Header) (frame []byte) {
	for i, h := range headers {
		at := len(frame)
		frame = append(frame, make([]byte, ethertype.HeaderSize+int(h.Size))...)
		h.Put(frame[at:])
		if ethertype.Seal(frame[at:]); i < len(headers)-1 {
			framing.SetMore(frame[at:])
		}
	}
	return frame
}

// joint is a change of the second of three frames that share an Ethernet frame.
type joint struct {
	change func(h *ethertype.Header)
	want   [3]uint64    // frames that each connection has got
	why    drops.Reason // of the second, if it is dropped
}

var joints = map[string]joint{
	"good":              {func(*ethertype.Header) {}, [3]uint64{1, 1, 1}, 0},
	"another block":     {func(h *ethertype.Header) { h.SrcPort += framing.PortBlock }, [3]uint64{1, 0, 0}, drops.Format},
	"another station's": {func(h *ethertype.Header) { h.Src[5]++ }, [3]uint64{1, 0, 0}, drops.Format},
	"to another":        {func(h *ethertype.Header) { h.Dst[5]++ }, [3]uint64{1, 0, 0}, drops.Format},
	"to another NIC":    {func(h *ethertype.Header) { h.DstPort = lowest + ports }, [3]uint64{1, 0, 0}, drops.Format},
	"query":             {func(h *ethertype.Header) { h.Kind, h.Flags = ethertype.KindQuery, 0 }, [3]uint64{1, 0, 0}, drops.Format},
	"wrong port":        {func(h *ethertype.Header) { h.SrcPort ^= 1 }, [3]uint64{1, 0, 1}, drops.Peer},
}

// TestJoined: frames that share an Ethernet frame go each to its connection. Of those behind
// the first only what the program that has sent it may send, and may reach, is looked at: what is
// wrong ends the Ethernet frame, without an answer.
func TestJoined(t *testing.T) {
	for name, c := range joints {
		r := newRig(t)
		var headers []ethertype.Header
		for range 3 {
			v := r.open(reliability.ReliableDelivery, peer, true)
			headers = append(headers, v.from(ethertype.KindAck))
		}
		c.change(&headers[1])
		dropped := r.m.Counters().Dropped
		r.in = append(r.in, joined(headers...))
		r.m.Poll(r.now)
		for i, v := range r.vis {
			if v.conn.Stats.RxFrames != c.want[i] {
				t.Errorf("%s: connection %d has got %d frames, want %d", name, i, v.conn.Stats.RxFrames, c.want[i])
			}
		}
		after := r.m.Counters()
		if c.why != 0 && after.Dropped[c.why] != dropped[c.why]+1 || len(r.out) > 0 {
			t.Errorf("%s: dropped %v, %d answers", name, after.Dropped, len(r.out))
		}
		if name == "good" && (after.RxFrames != 1 || after.RxJoined != 2) {
			t.Errorf("counted %d frames and %d joined", after.RxFrames, after.RxJoined)
		}
	}
}
