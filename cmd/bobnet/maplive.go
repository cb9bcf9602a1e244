package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

const (
	mapPause   = 50 * time.Millisecond // between two mappings of a running fabric
	mapTimeout = 4 * time.Millisecond  // least time for an answer: more than mappers give, because who asks wants the truth
	mapWait    = 20 * time.Millisecond // after which it is looked whether the verb is interrupted
)

// live maps the running fabric at the end of a cable, until two mappings in a row agree.
func (o *mapOptions) live(ctx context.Context, truth *myrinet.File) (*mapper.Map, error) {
	with := plain.LiveMapper()
	with.Observe, with.Period, with.Timeout = true, mapPause, mapTimeout
	if truth != nil {
		with.Ports = truth.Ports
	}
	link, err := plain.Open(ctx, &plain.OpenConfig{Interface: o.iface, Config: plain.Config{Mapper: with}})
	if err != nil {
		return nil, err
	}
	defer link.Close()
	card, ok := transport.As[interface {
		Up() bool
		Snapshot() plain.Snapshot
	}](link)
	if !ok {
		return nil, fmt.Errorf("map: %T is not the link of a card", link)
	}
	var last *mapper.Map
	for end := link.Now() + int64(o.limit); link.Now() < end; {
		if err := link.Wait(link.Now() + int64(mapWait)); err != nil {
			return nil, err
		}
		if _, err := link.Recv(make([][]byte, transport.MaxBatch)); err != nil { // what comes for a station is not ours
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		found := card.Snapshot().Mapper.Map
		if found == nil || found == last || !card.Up() {
			continue
		}
		if last != nil && found.Topology.Text() == last.Topology.Text() {
			return found, nil
		}
		last = found
	}
	if obstacle := iface.Obstacle(link.Info().Interface); obstacle != "" && !card.Up() {
		return nil, fmt.Errorf("map: nothing answers at the other end of the cable: %s", obstacle)
	}
	if !card.Up() {
		return nil, fmt.Errorf("map: nothing is at the other end of the cable on %s after %v: want a switch or a card there", link.Info().Interface, o.limit)
	}
	return nil, fmt.Errorf("map: no two mappings in a row have agreed within %v: the fabric changes too fast, or give it more with --limit", o.limit)
}
