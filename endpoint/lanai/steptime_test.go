package lanai_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// slowLink is a cable whose host has little of a processor: at times much time passes between
// two looks at the clock, within a step of the control program, too.
type slowLink struct {
	*sim.Station
	passed, looks int64
	every         int64 // how many looks lie between two of them
}

func (l *slowLink) Now() int64 {
	if l.looks++; l.looks > 1_000_000 {
		panic("a step of the control program does not end")
	}
	if l.every > 0 && l.looks%l.every == 0 {
		l.passed += int64(time.Second)
	}
	return l.Station.Now() + l.passed
}

func (l *slowLink) Wait(until int64) error { return l.Station.Wait(until - l.passed) }

// TestStepEnds: endpoints that take turns to be in frames do so by the time that has passed,
// within a step of a live card, too, which would else move them for ever.
func TestStepEnds(t *testing.T) {
	const clients = 20
	w := sim.New(sim.Options{Seed: 1, Limit: time.Hour})
	var cards [2]*lanai.Card
	var links [2]*slowLink
	for i := range cards {
		links[i] = &slowLink{Station: w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: hardware.CablePorts})}
		card, err := lanai.Join(links[i], &lanai.Config{MAC: mac(i + 1), Seed: uint64(i + 1), Cable: myrinet.LiveOptions{Seed: 1}})
		if err != nil {
			t.Fatal(err)
		}
		cards[i] = card
	}
	converseWith(t, w, cards, 1, func(p *party) error {
		answers := 0
		var eps []*endpoint.Endpoint
		for range clients {
			ep, err := p.newEndpoint()
			if err != nil {
				return err
			}
			ep.SetHandler(hBack, func(endpoint.Token, []uint32, []byte) { answers++ })
			if err := ep.Map(0, p.targets[0], tag); err != nil {
				return err
			}
			eps = append(eps, ep)
		}
		for round := range 40 {
			links[1].every = int64(20 + round)
			for _, ep := range eps {
				for range endpoint.DefaultCredits.Short {
					if err := ep.RequestBulkAsync(0, hEcho, nil, 0); err != nil {
						return err
					}
				}
			}
			links[1].every = 0
			if err := p.until("answers", func() bool { return answers == (round+1)*clients*endpoint.DefaultCredits.Short }); err != nil {
				return err
			}
		}
		return nil
	})
}
