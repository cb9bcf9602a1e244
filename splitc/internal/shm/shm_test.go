package shm_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/splitc/internal/shm"
)

var seeds = seedtest.Flags("splitc/internal/shm", 3).Each

func TestLayer(t *testing.T) { layertest.Run(t, shm.Open, seeds) }

func TestGather(t *testing.T) { layertest.Gathers(t, shm.Open, seeds) }
