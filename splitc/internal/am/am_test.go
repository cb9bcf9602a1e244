package am_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/splitc/internal/am"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
)

var seeds = seedtest.Flags("splitc/internal/am", 10).Each

func TestLayer(t *testing.T) { layertest.Run(t, am.Open, seeds) }

func TestGather(t *testing.T) { layertest.Gathers(t, am.Open, seeds) }

// TestCards: active messages go over cards of an emulated Myrinet, and the job's over NICs.
func TestCards(t *testing.T) { layertest.OnCards(t, am.Open) }
