package reliable_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/splitc/internal/reliable"
)

var seeds = seedtest.Flags("splitc/internal/reliable", 10).Each

func TestLayer(t *testing.T) { layertest.Run(t, reliable.Open, seeds) }
