package paper

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// logP has the values of figure 5 for one program, in microseconds.
type logP struct{ send, receive, latency, gap, rtt, rtt8k float64 }

// Measurements of logP.
const (
	amRounds = 50
	amBurst  = 400
)

// onPair makes a client on one host send requests to a server on another host, at the same switch.
func onPair(ctx context.Context, cfg amConfig, client func(h *amHost) error) error {
	net, err := newAMNet(ctx, cfg, topology.Line(8, 1, 2), 2)
	if err != nil {
		return err
	}
	return net.run(one, onServer, func(h *amHost, _ int) error { return client(h) })
}

// measureLogP measures the parameters of the LogP model: the host's time for a request and for an
// arrived reply, the time between the requests of a long burst, and round trips.
func measureLogP(ctx context.Context, cfg amConfig) (l logP, err error) {
	err = onPair(ctx, cfg, func(h *amHost) (err error) {
		if l.send, l.receive, err = h.overheads(); err != nil {
			return err
		}
		if l.rtt, err = h.roundTrip(h.short); err != nil {
			return err
		}
		if l.rtt8k, err = h.roundTrip(h.medium(amMedium)); err != nil {
			return err
		}
		l.gap, err = h.burst(h.short, amBurst)
		return err
	})
	l.latency = l.rtt/2 - l.send - l.receive
	return l, err
}

// overheads returns the host's time for a request, and its time for an arrived reply.
func (h *amHost) overheads() (send, receive float64, err error) {
	const idle = time.Millisecond // longer than any round trip
	for range amRounds {
		if err := h.w.Sleep(idle); err != nil {
			return 0, 0, err
		}
		began, want := h.w.Now(), h.done+1
		if err := errors.Join(h.short(), h.poll(1)); err != nil {
			return 0, 0, err
		}
		sent := h.w.Now()
		if err := h.w.Sleep(idle); err != nil {
			return 0, 0, err
		}
		heard := h.w.Now()
		if err := errors.Join(h.await(want), h.poll(1)); err != nil {
			return 0, 0, err
		}
		send += micro(time.Duration(sent-began)) / amRounds
		receive += micro(time.Duration(h.w.Now()-heard)) / amRounds
	}
	return send, receive, nil
}

// roundTrip returns the time of a request and its reply.
func (h *amHost) roundTrip(request func() error) (float64, error) {
	began := h.w.Now()
	for range amRounds {
		if err := errors.Join(request(), h.await(h.done+1)); err != nil {
			return 0, err
		}
	}
	return micro(time.Duration(h.w.Now()-began)) / amRounds, nil
}

// burst returns the time between the requests of a long burst.
func (h *amHost) burst(request func() error, n int) (float64, error) {
	began, want := h.w.Now(), h.done+n
	for range n {
		if err := request(); err != nil {
			return 0, err
		}
	}
	err := h.await(want)
	return micro(time.Duration(h.w.Now()-began)) / float64(n), err
}

// mega is the number of bytes in an MB of the AM-II paper: 31 MB/s times 349 us are the paper's
// 11,345 bytes.
const mega = 1 << 20

// amBandwidth returns the bandwidth of a stream of medium messages of n bytes, in MB/s of mega
// bytes.
func amBandwidth(ctx context.Context, cfg amConfig, n int) (rate float64, err error) {
	err = onPair(ctx, cfg, func(h *amHost) error {
		us, err := h.burst(h.medium(n), amBurst)
		rate = float64(n) / us * 1e6 / mega
		return err
	})
	return rate, err
}
