package lanai_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc/internal/providertest"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestLiveConformance: in real time, over a cable between two network namespaces.
func TestLiveConformance(t *testing.T) {
	p := vethtest.New(t, 1500)
	macs := [2]myrinet.HostRoute{{To: mac(1)}, {To: mac(2)}}
	providertest.Run(t, func(t *testing.T) providertest.Stage {
		s := &liveStage{}
		for side := range s.hosts {
			err := p.In(side, func() (err error) {
				s.hosts[side], err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name,
					MAC: macs[side].To, Routes: []myrinet.HostRoute{macs[1-side]}, PeerTimeout: time.Minute})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.hosts[side].Close() })
		}
		return s
	})
}

// liveStage runs processes on goroutines, each at a host of its own.
type liveStage struct {
	hosts [2]*lanai.Card
	work  sync.WaitGroup
}

func (s *liveStage) Go(number uint32, body func(providertest.Open)) {
	s.work.Go(func() { body(opener(s.hosts[number-1], number)) })
}

func (*liveStage) Kill(uint32) bool { return false }

func (*liveStage) Sleep(d time.Duration) error {
	<-time.After(d)
	return nil
}

func (s *liveStage) Run() error {
	s.work.Wait()
	for side, h := range s.hosts {
		if err := left(h); err != nil {
			return fmt.Errorf("host %d: %w", side, err)
		}
	}
	return nil
}

// left waits until nothing is left of processes that have.
func left(h *lanai.Card) error {
	for end := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		n := h.Snapshot()
		if n.Frames == 0 && len(n.Processes) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d frames and %d processes are left", n.Frames, len(n.Processes))
		}
	}
}
