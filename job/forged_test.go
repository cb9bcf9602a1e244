package job_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// forger is a link on which a NIC's requests for connections go out in the name of many stations
// that do not exist.
type forger struct {
	*sim.Station
	names int
}

// Send sends each request as the request of another station.
func (f *forger) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		var h ethertype.Header
		whole := frames[i].AppendTo(nil)
		if _, err := h.Parse(whole); err != nil || h.Kind != ethertype.KindRequest {
			continue
		}
		f.names++
		h.Src = ethertype.MAC{2, 9, 9, 0, 0, byte(f.names)}
		h.Put(whole)
		ethertype.Seal(whole)
		frames[i] = transport.Frame{Head: whole}
	}
	return f.Station.Send(frames)
}

// TestForged: requests as rank 1 in the name of stations that do not exist do not keep the job
// from coming together.
func TestForged(t *testing.T) {
	intruded(t, 200*time.Millisecond, func(w *world, f *sim.Station) transport.Link { return &forger{Station: f} }, nil)
}

// TestSilentClaimants: nor do for long requests as rank 1 of a station that proves its address
// and then stops answering.
func TestSilentClaimants(t *testing.T) {
	silent := func(_ int64, from, _ *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		h.Parse(frame)
		return sim.Action{Drop: from.MAC()[5] == 3 && h.Kind != ethertype.KindRequest && h.Kind != ethertype.KindQuery}
	}
	intruded(t, 4*time.Second, func(w *world, f *sim.Station) transport.Link { return f }, silent)
}

// TestForgedFirstUse: a rank whose request for a connection on first use comes before the job has come together, when a
// station has filled the list of such requests, learns that it is to try again.
func TestForgedFirstUse(t *testing.T) {
	const most = 2 + 64 // of ranks and others
	w := newWorld(2, sim.Options{})
	w.host("rank 0", 0, func(nic *vipl.NIC) error { return meets(w, nic, 0) })
	w.host("rank 1", time.Second, func(nic *vipl.NIC) error { return meets(w, nic, 1) })
	w.host("forger", 0, func(nic *vipl.NIC) error {
		addr, err := nic.Lookup(bg, "job/test/0")
		if err != nil {
			return err
		}
		const forProgram = 2
		var request [joining.HelloSize + 1]byte
		h := (&job.Identity{Job: "test", Rank: 1, Size: 2, Version: 2}).Hello([2]uint32{})
		h.Put(request[:])
		request[joining.HelloSize] = forProgram
		for n := range most + 1 {
			vi, err := nic.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if n < most {
				err = vi.ConnectStart(addr, request[:])
			} else if err = vi.Connect(bg, addr, request[:]); !errors.Is(err, vipl.ErrReject) || !refusal.Passing(err) {
				return fmt.Errorf("request %d: %w, want that the rank is busy", n, err)
			} else {
				err = nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	check(t, w.run())
}

// intruded runs a job of two ranks, the second of which comes when an intruder on a link has asked
// the first one 12 times for a connection as rank 1. They are to meet soon.
func intruded(t *testing.T, soon time.Duration, link func(*world, *sim.Station) transport.Link, script sim.Script) {
	t.Helper()
	seeds(t, 4, func(seed uint64) error {
		w := newWorld(2, sim.Options{Seed: seed})
		w.Script(script)
		asked := false
		w.host("rank 0", 0, func(nic *vipl.NIC) error { return meets(w, nic, 0) })
		w.host("rank 1", 200*time.Millisecond, func(nic *vipl.NIC) error {
			began := nic.Now()
			err := meets(w, nic, 1)
			if took := time.Duration(nic.Now() - began); err == nil && (took > soon || !asked) {
				return fmt.Errorf("the ranks have met after %v, want %v", took, soon)
			}
			return err
		})
		f := link(w, w.Station("forger"))
		w.Go("forger", func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: f, Seed: 99})
			if err == nil {
				err = forge(nic)
				asked = true
				nic.Close()
			}
			if err != nil {
				w.errs = append(w.errs, err)
			}
		})
		return w.run()
	})
}

// meets joins as a rank, and leaves.
func meets(w *world, nic *vipl.NIC, rank int) error {
	m, err := w.join(bg, nic, rank)
	if err != nil {
		return err
	}
	return m.Leave(bg)
}

// forge asks rank 0 for connections as rank 1.
func forge(nic *vipl.NIC) error {
	addr, err := nic.Lookup(bg, "job/test/0")
	if err != nil {
		return err
	}
	var hello [joining.HelloSize]byte
	h := (&job.Identity{Job: "test", Rank: 1, Size: 2, Version: 2}).Hello([2]uint32{})
	h.Put(hello[:])
	for range 12 {
		vi, err := nic.CreateVI(nil, nil, nil)
		if err == nil {
			err = vi.ConnectStart(addr, hello[:])
		}
		if err != nil {
			return err
		}
		ctx, cancel := nic.WithTimeout(bg, 10*time.Millisecond)
		nic.Lookup(ctx, "nobody") // drives the NIC meanwhile
		cancel()
		vi.Close()
	}
	return nil
}
