package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// Time limits for the segment, and the number of tries of an echo. A few tries find the round-trip
// time of a peer that is not busy.
const (
	discoverTime = 500 * time.Millisecond
	echoTime     = 200 * time.Millisecond
	echoTries    = 5
	maxPeers     = 64 // number of peers that get unicast echoes
)

// collectSegment opens a NIC with cfg and discovers the other stations.
func (f *Facts) collectSegment(ctx context.Context, cfg *vipl.Config) {
	f.NIC.Tried = true
	nic, err := vipl.Open(ctx, cfg)
	if err != nil {
		f.NIC.Err = err
		return
	}
	defer nic.Close() // after the calls deferred below
	info := seam.Link(nic).Info()
	if raw(f.Driver) {
		before := countTraffic(nic)
		defer func() { f.Traffic = countTraffic(nic).since(before) }()
	}
	f.NIC.Addr, f.NIC.Driver, f.NIC.MTU, f.NIC.Slots = nic.Addr(), info.Driver, info.MTU, info.Slots
	stations, err := discover(ctx, nic)
	if err != nil {
		f.Segment.Err = err
		return
	}
	for _, s := range stations {
		if s.Addr.MAC == f.NIC.Addr.MAC {
			f.Segment.Local++
		}
	}
	f.Segment.Peers = askPeers(ctx, nic, stations[:min(len(stations), maxPeers)])
}

// discover finds stations by broadcast, for a limited time.
func discover(ctx context.Context, nic *vipl.NIC) ([]vipl.Station, error) {
	ctx, cancel := nic.WithTimeout(ctx, discoverTime)
	defer cancel()
	return nic.Discover(ctx)
}

// askPeers sends unicast echoes to each station. A station that does not answer may have ended since
// the broadcast, so askPeers broadcasts again at the end.
func askPeers(ctx context.Context, nic *vipl.NIC, stations []vipl.Station) (all []Peer) {
	silent := false
	for _, s := range stations {
		p := Peer{Addr: s.Addr, Host: s.HostName, MTU: s.MTU}
		p.measure(ctx, nic)
		silent = silent || p.SmallErr != nil || p.FullErr != nil
		all = append(all, p)
	}
	if !silent {
		return all
	}
	there, err := discover(ctx, nic)
	for i := range all {
		p := &all[i]
		here := func(s vipl.Station) bool { return s.Addr == p.Addr }
		p.Gone = err == nil && (p.SmallErr != nil || p.FullErr != nil) && !slices.ContainsFunc(there, here)
	}
	return all
}

// measure sends short frames to a peer, and then frames as long as both MTUs allow. If the latter do
// not come back, it searches the longest frames that do.
func (p *Peer) measure(ctx context.Context, nic *vipl.NIC) {
	mtu := min(nic.Query().NativeMTU, p.MTU)
	p.FullBytes = mtu - ethertype.BaseSize
	if p.Small, p.SmallErr = roundTrip(ctx, nic, p.Addr, 0); p.SmallErr != nil {
		return
	}
	if p.Full, p.FullErr = roundTrip(ctx, nic, p.Addr, p.FullBytes); p.FullErr == nil {
		return
	}
	passes, fails := ethertype.BaseSize, mtu
	for passes+1 < fails && ctx.Err() == nil {
		middle := (passes + fails) / 2
		if middle < etherMTU && etherMTU < fails {
			middle = etherMTU // a likely result
		}
		if passed(ctx, nic, p.Addr, middle-ethertype.BaseSize) {
			passes = middle
		} else {
			fails = middle
		}
	}
	if passes > ethertype.BaseSize {
		p.Carries = passes
	}
}

// searchTries is the number of tries before a length counts as too long.
const searchTries = 3

// passed reports whether an echo with size bytes of payload comes back.
func passed(ctx context.Context, nic *vipl.NIC, to ethertype.Addr, size int) bool {
	for range searchTries {
		ctx, cancel := nic.WithTimeout(ctx, echoTime)
		_, err := nic.Echo(ctx, to, size)
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

// roundTrip returns the best of a few echoes with size bytes of payload, or the
// last error if none came back.
func roundTrip(ctx context.Context, nic *vipl.NIC, to ethertype.Addr, size int) (best time.Duration, err error) {
	var last error
	for range echoTries {
		ctx, cancel := nic.WithTimeout(ctx, echoTime)
		rtt, err := nic.Echo(ctx, to, size)
		cancel()
		switch {
		case err != nil:
			last = err
		case best == 0 || rtt < best:
			best = rtt
		}
	}
	if best > 0 {
		return best, nil
	}
	return 0, last
}
