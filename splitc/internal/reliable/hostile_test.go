package reliable_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/splitc/internal/reliable"
)

// TestHostile: a rank answers as it should most of the time, and else with anything.
func TestHostile(t *testing.T) {
	vis := &layertest.VIs{Layer: "reliable", Kinds: msg.Channels, Count: 1500,
		Next: func(f *layertest.Foe, _ int, heard, m []byte) int { return f.Message(heard, m, 1) }}
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: reliable.Open, Attack: vis.Attack, MaxControl: layer.MaxControl})
}

// TestForgedCredits: a rank answers no get, but says for each request that it has done one
// without a reply. More operations than there is room for must not come of that.
func TestForgedCredits(t *testing.T) {
	vis := &layertest.VIs{Layer: "reliable", Kinds: msg.Channels, Count: 3000,
		Next: func(_ *layertest.Foe, _ int, heard, m []byte) int {
			if heard == nil {
				return 0
			}
			return copy(m, []byte{msg.NoOp, 1, 0, 0})
		}}
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: reliable.Open, Attack: vis.Attack, MaxControl: layer.MaxControl})
}
