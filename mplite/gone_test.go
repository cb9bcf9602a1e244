package mplite_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInitAfterGoneRequest: a rank whose request to connect is accepted when it
// has given up asks again, and the other takes that.
func TestInitAfterGoneRequest(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	meet := func(c *mplite.Comm) error { return c.Barrier(bg) }
	j.host("rank 0", func(nic *vipl.NIC) error { return j.rank(nic, 0, meet) })
	j.host("first try", func(nic *vipl.NIC) error {
		addr, err := nic.Lookup(bg, "job/test/0")
		if err != nil {
			return err
		}
		vi, err := nic.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		return vi.ConnectStart(addr, mplite.Hello("test", 1, 2))
	})
	j.host("rank 1", func(nic *vipl.NIC) error {
		j.Sleep(time.Second)
		return j.rank(nic, 1, meet)
	})
	if err := j.run(); err != nil {
		t.Fatal(err)
	}
}
