package metrics_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type fakeNIC vipl.Snapshot

func (f *fakeNIC) Snapshot() vipl.Snapshot { return vipl.Snapshot(*f) }

type fakeNode endpoint.Stats

func (f *fakeNode) Addr() ethertype.Addr {
	return ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Port: 7}
}
func (f *fakeNode) Stats() endpoint.Stats { return endpoint.Stats(*f) }
func (f *fakeNode) Snapshot() endpoint.Snapshot {
	waits := endpoint.TranslationSnapshot{Index: 3, UnderWay: 2, Credits: 1, Oldest: "request", Age: 5 * time.Second, Waits: "for an answer"}
	ep := endpoint.EndpointSnapshot{ID: 1, Mapped: 1, Translations: []endpoint.TranslationSnapshot{waits}}
	return endpoint.Snapshot{Addr: f.Addr(), Stats: f.Stats(), Bundles: []endpoint.BundleSnapshot{{Endpoints: []endpoint.EndpointSnapshot{ep}}}}
}

type fakeComm mplite.Stats

func (f *fakeComm) Snapshot() mplite.Stats { return mplite.Stats(*f) }

func (f *fakeComm) Pending() mplite.Pending {
	return mplite.Pending{Job: "fake", Rank: 2, Size: 4, NumReceives: 1, Receives: []mplite.Operation{{Rank: 3, Tag: 5, State: "for a message"}}}
}

func nicWith(vis int) *fakeNIC {
	f := &fakeNIC{Attributes: vipl.NICAttributes{Name: "bob0", Addr: ethertype.Addr{Port: 1024}}, Link: transport.Stats{RxDrops: 7}}
	f.TxFrames = 42
	f.Dropped[drops.CRC] = 3
	f.Errors[vipl.CodeConnLost] = 4
	f.Closed.SendsDone = 100
	for i := range vis {
		v := vipl.VISnapshot{Local: ethertype.Addr{Port: uint16(1025 + i)}, State: vipl.StateConnected, Level: reliability.ReliableDelivery}
		v.Sends, v.SendsDone = 10, 9
		v.Sender.Timeouts, v.Sender.Threshold, v.SendUntaken = 2, 32, 1
		v.Dropped[drops.Duplicate] = 6
		v.Pending = []vipl.PendingSend{{Op: vipl.OpSend, Msg: 8, Size: 64, Sent: 64, Age: time.Duration(1+i) * time.Second, Again: time.Second}}
		f.VIs = append(f.VIs, v)
	}
	return f
}

// TestLint runs the Prometheus linter over everything that can be exported.
func TestLint(t *testing.T) {
	c := metrics.NewCollector(&metrics.Config{MaxVIs: 1})
	c.WatchNIC(nicWith(3))
	c.WatchComm(&fakeComm{})
	c.WatchNode(&fakeNode{})
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestValues(t *testing.T) {
	c := metrics.NewCollector(&metrics.Config{Labels: prometheus.Labels{"rank": "2"}})
	nic := nicWith(1)
	nic.VIs = append(nic.VIs, vipl.VISnapshot{Local: ethertype.Addr{Port: 1026}, Level: reliability.ReliableDelivery})
	c.WatchNIC(nic)
	c.WatchComm(&fakeComm{EagerSent: 5})
	node := &fakeNode{Sent: 8, Strays: 2}
	node.Refused[endpoint.ReasonBadTag], node.Returned[endpoint.ReasonUnreachable] = 3, 4
	c.WatchNode(node)
	for name, want := range map[string]string{
		"bobnet_nic_transmit_frames_total":        `{interface="bob0",port="1024",rank="2"} 42`,
		"bobnet_vi_sends_total":                   `{interface="bob0",port="1024",rank="2",vi="1025"} 10`,
		"bobnet_vi_oldest_unacknowledged_seconds": `{interface="bob0",port="1024",rank="2",vi="1025"} 1`,
		"bobnet_vi_slow_start_threshold_frames":   `{interface="bob0",port="1024",rank="2",vi="1025"} 32`,
		"bobnet_vi_info":                          `{interface="bob0",level="delivery",port="1024",rank="2",remote="",state="idle",vi="1026"} 1`,
		"bobnet_vi_retransmissions_total":         `{cause="timeout",interface="bob0",port="1024",rank="2",vi="1025"} 2`,
		"bobnet_nic_info":                         `{driver="",incarnation="0000000000000000",interface="bob0",mac="00:00:00:00:00:00",port="1024",rank="2"} 1`,
		"bobnet_nic_sends_completed_total":        `{interface="bob0",port="1024",rank="2"} 109`,
		"bobnet_nic_asynchronous_errors_total":    `{code="conn_lost",interface="bob0",port="1024",rank="2"} 4`,
		"bobnet_mplite_pending_receives":          `{rank="2"} 1`,
		"bobnet_mplite_collectives_total":         `{collective="bcast",rank="2"} 0`,
		"bobnet_mplite_eager_sent_total":          `{rank="2"} 5`,
		"bobnet_am_requests_sent_total":           `{node="02:00:00:00:00:01/7",rank="2"} 8`,
		"bobnet_am_stray_messages_total":          `{node="02:00:00:00:00:01/7",rank="2"} 2`,
		"bobnet_am_refused_messages_total":        `{node="02:00:00:00:00:01/7",rank="2",reason="bad_tag"} 3`,
		"bobnet_am_returned_messages_total":       `{node="02:00:00:00:00:01/7",rank="2",reason="unreachable"} 4`,
		"bobnet_link_dropped_frames_total":        `{interface="bob0",port="1024",rank="2",reason="receive_queue_full"} 7`,
		"bobnet_vi_receive_dropped_frames_total":  `{interface="bob0",port="1024",rank="2",reason="duplicate",vi="1025"} 6` + "\n#",
		"bobnet_nic_receive_dropped_frames_total": `{interface="bob0",port="1024",rank="2",reason="crc"} 3`,
	} {
		if got := gather(t, c); !strings.Contains(got, name+want) {
			t.Errorf("no %s%s in\n%s", name, want, got)
		}
	}
}

// gather returns what a scrape of c returns.
func gather(t *testing.T, c *metrics.Collector) string {
	t.Helper()
	srv, err := metrics.Serve("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	resp, err := http.Get(fmt.Sprintf("http://%v/metrics", srv.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestBoundedVIs: however many VIs there are, the number of time series stays,
// and nothing is lost from the sums.
func TestBoundedVIs(t *testing.T) {
	c := metrics.NewCollector(&metrics.Config{MaxVIs: 8})
	forget := c.WatchNIC(nicWith(8))
	eight := testutil.CollectAndCount(c, "bobnet_vi_sends_total")
	forget()
	c.WatchNIC(nicWith(5000))
	many := testutil.CollectAndCount(c, "bobnet_vi_sends_total")
	if eight != 8 || many != 9 {
		t.Errorf("8 VIs make %d series, 5000 make %d, want 8 and 9", eight, many)
	}
	for _, want := range []string{
		`bobnet_vi_sends_total{interface="bob0",port="1024",vi="other"} 49920`,
		`bobnet_vi_retransmissions_total{cause="timeout",interface="bob0",port="1024",vi="other"} 9984`,
		`bobnet_vi_receive_dropped_frames_total{interface="bob0",port="1024",reason="duplicate",vi="other"} 29952`,
		`bobnet_vi_oldest_unacknowledged_seconds{interface="bob0",port="1024",vi="other"} 5000`,
	} {
		if got := gather(t, c); !strings.Contains(got, want) {
			t.Errorf("the other 4992 VIs are not summed: no %s in\n%s", want, got)
		}
	}
}

// TestAlike: NICs of one process whose interface and port are the same, by
// different drivers or with different EtherTypes, are told apart, and so are
// nodes; no scrape fails, and a label stays while what it tells apart is watched.
func TestAlike(t *testing.T) {
	c := metrics.NewCollector(nil)
	forget := c.WatchNIC(nicWith(1))
	second := nicWith(1)
	second.TxFrames = 43
	c.WatchNIC(second)
	c.WatchNode(&fakeNode{Sent: 1})
	c.WatchNode(&fakeNode{Sent: 2})
	has := func(lines ...string) {
		t.Helper()
		text := gather(t, c)
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	}
	other := `bobnet_nic_transmit_frames_total{interface="bob0",port="1024#2"} 43`
	has(`bobnet_nic_transmit_frames_total{interface="bob0",port="1024"} 42`, other,
		`bobnet_vi_sends_total{interface="bob0",port="1024#2",vi="1025"} 10`,
		`bobnet_am_requests_sent_total{node="02:00:00:00:00:01/7"} 1`,
		`bobnet_am_requests_sent_total{node="02:00:00:00:00:01/7#2"} 2`)
	forget()
	has(other)
	third := nicWith(1)
	third.Attributes.Name = "bob1"
	c.WatchNIC(third)
	has(`bobnet_nic_transmit_frames_total{interface="bob1",port="1024"} 42`, other)
	third.Attributes.Name = "bob0" // renamed
	has(`bobnet_nic_transmit_frames_total{interface="bob0",port="1024"} 42`, other)
	second.Attributes.Name = "bob1"
	has(strings.Replace(other, `bob0",port="1024#2"`, `bob1",port="1024"`, 1))
}

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
