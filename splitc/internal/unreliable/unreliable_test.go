package unreliable

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
)

var seeds = seedtest.Flags("splitc/internal/unreliable", 10).Each

func TestLayer(t *testing.T) { layertest.Run(t, Open, seeds) }

// TestStorm: 30 % of the frames are lost, 10 % come twice, and they overtake each other by
// up to 64.
func TestStorm(t *testing.T) { layertest.Storm(t, Open, seeds) }
