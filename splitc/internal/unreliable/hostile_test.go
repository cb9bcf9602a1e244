package unreliable

import (
	"encoding/binary"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestHostile: a rank answers as it should most of the time, and else with anything: other
// numbers, and acknowledgements of what was never sent.
func TestHostile(t *testing.T) {
	le := binary.LittleEndian
	attack := func(f *layertest.Foe, c layer.Config) error {
		var w [msg.Channels]window
		for kind := range w {
			w[kind] = newWindow(credits[kind])
		}
		vis := &layertest.VIs{Layer: "unreliable", Kinds: msg.Channels, Count: 1500, Attrs: vipl.Attributes{Reliability: reliability.Unreliable}}
		vis.Next = func(f *layertest.Foe, kind int, heard, m []byte) int {
			w := &w[kind]
			if len(heard) > headSize {
				w.acknowledged(request, le.Uint32(heard[4:]))
				w.acknowledged(reply, le.Uint32(heard[8:]))
				class := classOf(heard[headSize])
				if heard = heard[headSize:]; heard[0] != msg.NoOp {
					w.processed(class, 0)
				}
			}
			n := headSize + f.Message(heard, m[headSize:], 1)
			number := uint32(0)
			if kind := m[headSize]; kind != msg.NoOp {
				class := classOf(kind)
				if w.full(class) {
					return 0
				}
				number = w.add(class, 0)
			}
			words := []uint32{number, w.in[request], w.in[reply]}
			if f.RNG.IntN(30) == 0 {
				words[f.RNG.IntN(3)] += uint32(f.RNG.IntN(200)) - 100
			}
			for i, word := range words {
				le.PutUint32(m[4*i:], word)
			}
			return n
		}
		return vis.Attack(f, c)
	}
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: Open, Attack: attack, MaxControl: layer.MaxControl})
}
