package metrics_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/transport/trace"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type fakeCard struct{ s plain.Snapshot }

func (f *fakeCard) Snapshot() plain.Snapshot { return f.s }

func card(leads bool) *fakeCard {
	f := &plain.Snapshot{BadDoorbells: 2}
	f.Stations, f.LongRoutes = 3, 1
	f.Cable = &myrinet.LivePort{Interface: "bob0", Driver: "ring", Up: true, Neighbor: "n"}
	f.Card = myrinet.CardSnapshot{Name: "bob0", Memory: []myrinet.BlockUse{{Purpose: "packets in", Size: 4096}, {Purpose: "packets in", Size: 4096}}}
	f.Card.Stats = myrinet.CardStats{PacketsOut: 4, OctetsOut: 400, PacketsIn: 5, OctetsIn: 500, Truncated: 6, CRCErrors: 7, NoBuffer: 8, SRAMUsed: 8192, SRAMTotal: 1 << 18}
	f.Cable.Packets.BlockedNanos, f.Cable.Packets.NoCable, f.Cable.Frames.TooLong, f.Cable.Frames.Sessions = 2_500_000_000, 9, 1, 2
	f.Mapper = &mapper.Snapshot{Routes: 3, Leading: leads, Stats: mapper.Stats{Maps: 11, Probes: 120}}
	if leads {
		top := myrinet.Topology{Ports: 8, Hosts: []string{"a", "b"}, Switches: []string{"s0"},
			Cables: []myrinet.Join{{A: myrinet.AtHost(0), B: myrinet.AtSwitch(0, 0)}, {A: myrinet.AtHost(1), B: myrinet.AtSwitch(0, 1)}}}
		f.Mapper.Map = &mapper.Map{Topology: top, IDs: []ethertype.MAC{{2, 1}, {2, 2}}, Probes: 20, Lost: 5, Duration: 3 * time.Second}
	}
	return &fakeCard{*f}
}

// TestCard: cards and mappers are exported, the map by who leads alone, and stop when they
// are forgotten.
func TestCard(t *testing.T) {
	c := metrics.NewCollector(nil)
	forget := []func(){c.WatchCard(card(true)), c.WatchCard(card(false))}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_card_transmit_packets_total{card="bob0"} 4`,
		`bobnet_card_receive_bytes_total{card="bob0#2"} 500`,
		`bobnet_card_blocked_packets_total{card="bob0"} 8`,
		`bobnet_card_blocked_seconds_total{card="bob0"} 2.5`,
		`bobnet_card_dropped_packets_total{card="bob0",reason="truncated"} 6`,
		`bobnet_card_dropped_packets_total{card="bob0",reason="crc"} 7`,
		`bobnet_card_dropped_packets_total{card="bob0",reason="cable"} 10`,
		`bobnet_card_sram_used_bytes{card="bob0"} 8192`,
		`bobnet_card_stations{card="bob0"} 3`,
		`bobnet_card_long_routes_total{card="bob0"} 1`,
		`bobnet_card_bad_doorbells_total{card="bob0"} 2`,
		`bobnet_mapper_leading{card="bob0"} 1`,
		`bobnet_mapper_leading{card="bob0#2"} 0`,
		`bobnet_mapper_routes{card="bob0#2"} 3`,
		`bobnet_mapper_probes_total{card="bob0"} 120`,
		`bobnet_map_hosts{card="bob0"} 2`,
		`bobnet_map_probes{card="bob0"} 20`,
		`bobnet_map_seconds{card="bob0"} 3`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `bobnet_map_hosts{card="bob0#2"}`) {
		t.Error("a host that does not lead exports a map")
	}
	for _, f := range forget {
		f()
	}
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("what was forgotten still exports %d metrics", n)
	}
}

// TestDumpOfCard: cards and mappers are in dumps, as text and as JSON.
func TestDumpOfCard(t *testing.T) {
	c := metrics.NewCollector(nil)
	c.WatchCard(card(true))
	_, _, text := fetch(t, c.DumpHandler(), "/debug/bobnet")
	for _, want := range []string{"card bob0  8192 of 262144 octets of SRAM in use, 0 doorbell pages, routes to 3 stations\n",
		"out    4 packets, 400 octets", "truncated 6, too long 0, wrong CRC-8 7", "doorbells that cannot be 2\n", "SRAM      8192 octets in   2 for packets in\n",
		"mapper   follows itself, 3 routes; maps 11", "last map: 2 hosts, 1 switch, 2 cables, as a sees them; 20 probes in 3s, of which 15 came back"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	status, _, text := fetch(t, c.DumpHandler(), "/debug/bobnet?format=json")
	for _, want := range []string{`"Cards"`, `"SRAMUsed": 8192`, `"probes": 20`, `"BlockedNanos": 2500000000`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("no %q in, status %d,\n%s", want, status, text)
		}
	}
}

// TestCardOfNIC: who watches a NIC on a card watches the card, also when the card's link is
// wrapped.
func TestCardOfNIC(t *testing.T) {
	w := sim.New(sim.Options{})
	station := w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: myrinet.CablePorts})
	link, err := plain.Join(station, &plain.Config{Card: myrinet.CardConfig{Name: "c7"}}, myrinet.LiveOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	wrapped := fault.New(pcap.New(trace.New(link, io.Discard), io.Discard), fault.Options{})
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: wrapped, NoService: true})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	c := metrics.NewCollector(nil)
	forget := c.WatchNIC(nic)
	if text := gather(t, c); !strings.Contains(text, `bobnet_card_cable_up{card="c7"} 0`) {
		t.Errorf("no card in\n%s", text)
	}
	forget()
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("what was forgotten still exports %d metrics", n)
	}
}
