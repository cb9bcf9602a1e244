package rdma

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
)

var seeds = seedtest.Flags("splitc/internal/rdma", 10).Each

func TestLayer(t *testing.T) { layertest.Run(t, Open, seeds) }
