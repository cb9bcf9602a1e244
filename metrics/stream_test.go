package metrics_test

import (
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type fakeStreams stream.Snapshot

func (f *fakeStreams) Snapshot() stream.Snapshot { return stream.Snapshot(*f) }

// TestStreams: hosts of streams are exported, however many streams they have, and stop when
// they are forgotten; a dump says what each stream waits for.
func TestStreams(t *testing.T) {
	at := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Port: 1024}
	s := &fakeStreams{Addr: at, Open: 70, Counts: stream.Counts{Dialed: 3, Refused: 2}, Stats: stream.Stats{BytesRead: 40, CreditsSent: 5},
		Listeners: []stream.ListenerSnapshot{{Addr: stream.Addr{Name: "files"}, Waiting: 4, Backlog: 128}},
		Conns:     []stream.ConnSnapshot{{Local: stream.Addr{Addr: at}, Unread: 17, UnreadThere: 99, Ended: true, Err: "it is gone"}}}
	c := metrics.NewCollector(nil)
	forget := []func(){c.WatchStreams(s), c.WatchStreams((*fakeStreams)(&stream.Snapshot{Addr: at}))}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_stream_open_streams{host="02:00:00:00:00:01/1024"} 70`,
		`bobnet_stream_open_streams{host="02:00:00:00:00:01/1024#2"} 0`,
		`bobnet_stream_waiting_streams{host="02:00:00:00:00:01/1024"} 4`,
		`bobnet_stream_refused_total{host="02:00:00:00:00:01/1024"} 2`,
		`bobnet_stream_read_bytes_total{host="02:00:00:00:00:01/1024"} 40`,
		`bobnet_stream_sent_credits_total{host="02:00:00:00:00:01/1024"} 5`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var dump strings.Builder
	c.Dump().WriteTo(&dump)
	for _, want := range []string{"70 open, dialed=3", "listens at bobnet://files, 4 of 128 wait", "UNREAD 17 UNSENT 0 THERE 99 UNDERWAY 0, ended there, it is gone", "and 69 more"} {
		if !strings.Contains(dump.String(), want) {
			t.Errorf("no %q in\n%s", want, dump.String())
		}
	}
	for _, f := range forget {
		f()
	}
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d metrics of what was forgotten", n)
	}
}
