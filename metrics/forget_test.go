package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestForget: what is forgotten exports nothing any more, though it was watched
// twice.
func TestForget(t *testing.T) {
	c := metrics.NewCollector(nil)
	nic := nicWith(1)
	forget := c.WatchNIC(nic)
	once := testutil.CollectAndCount(c)
	if once == 0 {
		t.Fatal("a watched NIC exports nothing")
	}
	c.WatchNIC(nic)
	if n := testutil.CollectAndCount(c); n != once {
		t.Errorf("a NIC exports %d metrics, and %d when it is watched twice", once, n)
	}
	forget()
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("a forgotten NIC still exports %d metrics", n)
	}
}

// TestForgetOlderRank: the end of a rank leaves in place the one that is watched
// since.
func TestForgetOlderRank(t *testing.T) {
	c := metrics.NewCollector(nil)
	forget := c.WatchComm(&fakeComm{EagerSent: 1})
	forgetNewer := c.WatchComm(&fakeComm{EagerSent: 2})
	forget()
	if got := gather(t, c); !strings.Contains(got, "\nbobnet_mplite_eager_sent_total 2\n") {
		t.Errorf("the newer rank is not exported:\n%s", got)
	}
	forgetNewer()
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("a forgotten rank still exports %d metrics", n)
	}
}

// closing is a NIC that closes while it is asked.
type closing struct {
	fakeNIC
	close func()
}

func (n *closing) Snapshot() vipl.Snapshot {
	n.close()
	return n.fakeNIC.Snapshot()
}

// TestForgetWhileCollecting: a NIC that is forgotten under a scrape takes no
// other out of it.
func TestForgetWhileCollecting(t *testing.T) {
	c := metrics.NewCollector(nil)
	first := &closing{fakeNIC: *nicWith(1)}
	first.close = c.WatchNIC(first)
	second := nicWith(1)
	second.Attributes.Name = "bob1"
	c.WatchNIC(second)
	if got := gather(t, c); !strings.Contains(got, `bobnet_nic_transmit_frames_total{interface="bob1",port="1024"} 42`) {
		t.Errorf("the NIC that stays is not exported:\n%s", got)
	}
}

// TestForgetRank: a rank brings its NIC, and takes it away again.
func TestForgetRank(t *testing.T) {
	const size = 2
	w, errs := sim.New(sim.Options{Seed: 1}), make([]error, size)
	for rank := range size {
		name := fmt.Sprintf("rank %d", rank)
		station := w.Station(name)
		w.Go(name, func() { errs[rank] = forgetRank(station, rank, size) })
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func forgetRank(station *sim.Station, rank, size int) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(rank + 1)})
	if err != nil {
		return err
	}
	defer nic.Close()
	ctx := context.Background()
	comm, err := mplite.Init(ctx, &mplite.Config{Config: job.Config{Job: "forget", Rank: rank, Size: size, NIC: nic}})
	if err != nil {
		return err
	}
	c := metrics.NewCollector(nil)
	forget := c.WatchRank(comm)
	for _, name := range []string{"bobnet_mplite_eager_sent_total", "bobnet_nic_info"} {
		if n := testutil.CollectAndCount(c, name); n != 1 {
			return fmt.Errorf("a rank exports %d series of %s, want 1", n, name)
		}
	}
	forget()
	if n := testutil.CollectAndCount(c); n != 0 {
		return fmt.Errorf("a forgotten rank still exports %d metrics", n)
	}
	return comm.Finalize(ctx)
}
