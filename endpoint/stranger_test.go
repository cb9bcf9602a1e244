package endpoint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestStrangers: who asks for connections of the largest shape from an address at
// which nothing reaches him gets no memory and no VI, however many he asks for, and
// others are served meanwhile.
func TestStrangers(t *testing.T) {
	for _, strangers := range []int{12, 500} {
		w := newWorld(sim.Options{})
		stranger := w.Station("stranger")
		w.Script(func(_ int64, _, to *sim.Station, _ []byte) sim.Action { return sim.Action{Drop: to == stranger} })
		var server *party
		done := false
		w.pair(endpoint.Config{}, func(s *party) {
			server = s
			endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
		}, func(n *endpoint.Node, c *party) error {
			defer func() { done = true }()
			w.Sleep(50 * time.Millisecond)
			at := serverNode(server)
			before := at.NIC().Snapshot()
			if vis := len(before.VIs); vis != 0 || endpoint.Taken(at) != 0 || before.RegionBytes != 0 {
				return fmt.Errorf("strangers have %d VIs, %d bytes of buffers, %d registered", vis, endpoint.Taken(at), before.RegionBytes)
			}
			if before.Link.RxFrames < uint64(strangers) {
				return fmt.Errorf("%d frames have come: this tests nothing", before.Link.RxFrames)
			}
			for i := range int32(10) {
				if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, i); err != nil || got != i+1 {
					return fmt.Errorf("an honest call beside them: %d, %w", got, err)
				}
				w.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		w.Go("stranger", func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: stranger, Seed: 9})
			if err != nil {
				w.errs = append(w.errs, err)
				return
			}
			defer nic.Close()
			to := w.find("server")
			for range strangers {
				vi, err := nic.CreateVI(nil, nil, nil)
				if err == nil {
					err = vi.ConnectStart(to.Addr, largest(endpoint.Name{ID: 1}, to))
				}
				if err != nil {
					w.errs = append(w.errs, err)
					return
				}
			}
			for !done {
				w.Sleep(time.Millisecond)
				nic.Poll()
			}
		})
		if err := w.run(); err != nil {
			t.Errorf("%d strangers: %v", strangers, err)
		}
	}
}
