package lanai_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"github.com/bobnet-go/bobnet/vmmc/internal/providertest"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestConformance: in virtual time, without and with a timing model, of processes at two
// hosts and at one.
func TestConformance(t *testing.T) {
	timed := lanai.Config{Card: myrinet.CardConfig{Timing: myrinet.PCITiming()}}
	for name, s := range map[string]virtualStage{
		"no timing": {},
		"PCI":       {cfg: timed},
		"mapped":    {cfg: mapped()},
		"one host":  {cfg: timed, one: true}, // without, thousands of writes take no time
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Stage {
				s := s
				s.network = newNetwork(t, myrinet.Options{Seed: 3})
				return &s
			})
		})
	}
}

// virtualStage runs processes in virtual time, each at a host of its own, or all at one.
type virtualStage struct {
	*network
	cfg lanai.Config
	one bool
}

func opener(h *lanai.Card, number uint32) providertest.Open {
	return func(up provider.Up, kick func()) (provider.Provider, error) {
		return provider.OnCard(h, provider.ProcessConfig{Process: number, Connections: 8, Sends: providertest.Sends, Kick: kick}, up)
	}
}

func (s *virtualStage) Go(number uint32, body func(providertest.Open)) {
	i := int(number)
	if s.one {
		i = 1
	}
	if s.hosts[i] == nil {
		cfg := s.cfg
		cfg.PeerTimeout = providertest.PeerTimeout
		s.host(i, cfg)
	}
	s.World.Go(fmt.Sprint(number), func() {
		for h := s.hosts[i]; s.cfg.Mapper != nil && h.Snapshot().Nodes < 2; {
			if s.World.Sleep(time.Millisecond) != nil {
				return
			}
		}
		body(opener(s.hosts[i], number))
	})
}

func (s *virtualStage) Kill(number uint32) bool {
	if s.one {
		return false
	}
	s.cables[int(number)].Cut()
	return true
}

func (s *virtualStage) Sleep(d time.Duration) error { return s.World.Sleep(d) }
