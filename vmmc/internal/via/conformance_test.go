package via_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"github.com/bobnet-go/bobnet/vmmc/internal/providertest"
	"github.com/bobnet-go/bobnet/vmmc/internal/via"
)

// TestConformance: in virtual time, on a network that loses nothing, on one that loses
// 10 %, and in real time over shared memory.
func TestConformance(t *testing.T) {
	for _, loss := range []float64{0, 0.1} {
		t.Run(fmt.Sprintf("loss %v", loss), func(t *testing.T) {
			providertest.Run(t, func(*testing.T) providertest.Stage {
				return &simStage{sim.New(sim.Options{Seed: 3, Loss: loss, Reorder: loss}), map[uint32]*sim.Station{}}
			})
		})
	}
	t.Run("real", func(t *testing.T) {
		providertest.Run(t, func(*testing.T) providertest.Stage { return new(liveStage) })
	})
}

func opener(nic *vipl.NIC, number uint32, timeout time.Duration) providertest.Open {
	return func(up provider.Up, kick func()) (provider.Provider, error) {
		return via.Open(via.Config{NIC: nic, Process: number, PeerTimeout: timeout, Connections: 8,
			Sends: providertest.Sends, Kick: kick}, up)
	}
}

// simStage runs processes in virtual time.
type simStage struct {
	*sim.World
	stations map[uint32]*sim.Station
}

func (s *simStage) Go(number uint32, body func(providertest.Open)) {
	station := s.Station(fmt.Sprint(number))
	s.stations[number] = station
	s.World.Go(station.String(), func() {
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(number)})
		if err != nil {
			panic(err)
		}
		defer nic.Close()
		body(opener(nic, number, providertest.PeerTimeout))
	})
}

func (s *simStage) Kill(number uint32) bool {
	s.World.Kill(s.stations[number])
	return true
}

// liveStage runs processes on goroutines, in shared memory.
type liveStage struct {
	work sync.WaitGroup
	mu   sync.Mutex
	err  error
}

func (s *liveStage) Go(number uint32, body func(providertest.Open)) {
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		nic, err := vipl.Open(context.Background(), &vipl.Config{Driver: "shm"})
		if err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			return
		}
		defer nic.Close()
		body(opener(nic, number, time.Minute)) // a busy machine is no dead peer
	}()
}

func (*liveStage) Kill(uint32) bool { return false }

func (*liveStage) Sleep(d time.Duration) error {
	<-time.After(d)
	return nil
}

func (s *liveStage) Run() error {
	s.work.Wait()
	return s.err
}
