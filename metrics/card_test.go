package metrics_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	endpoints "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/transport/trace"
	"github.com/bobnet-go/bobnet/vipl"
	vmmc "github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type fakeCard struct{ s plain.Snapshot }

func (f *fakeCard) Snapshot() plain.Snapshot { return f.s }

func card(leads bool) *fakeCard {
	f := &plain.Snapshot{BadDoorbells: 2}
	f.Stations, f.LongRoutes = 3, 1
	f.Cable = &hardware.LivePort{Interface: "bob0", Driver: "ring", Up: true, Neighbor: "n"}
	f.Card = hardware.CardSnapshot{Name: "bob0", Memory: []hardware.BlockUse{{Purpose: "packets in", Size: 4096}, {Purpose: "packets in", Size: 4096}}}
	f.Card.Stats = hardware.CardStats{PacketsOut: 4, BytesOut: 400, PacketsIn: 5, BytesIn: 500, Truncated: 6, CRCErrors: 7, NoBuffer: 8, SRAMUsed: 8192, SRAMTotal: 1 << 18}
	f.Cable.Packets.BlockedNanos, f.Cable.Packets.NoCable, f.Cable.Frames.TooLong, f.Cable.Frames.Sessions = 2_500_000_000, 9, 1, 2
	f.Mapper = &mapper.Snapshot{Routes: 3, Leading: leads, Stats: mapper.Stats{Maps: 11, Probes: 120}}
	if leads {
		top := topology.Topology{Ports: 8, Hosts: []string{"a", "b"}, Switches: []string{"s0"},
			Cables: []topology.Join{{A: topology.AtHost(0), B: topology.AtSwitch(0, 0)}, {A: topology.AtHost(1), B: topology.AtSwitch(0, 1)}}}
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
	for _, want := range []string{"card bob0  8192 of 262144 bytes of SRAM in use, 0 doorbell pages, routes to 3 stations\n",
		"out    4 packets, 400 bytes", "truncated 6, too long 0, wrong CRC-8 7", "invalid doorbells 2\n", "SRAM      8192 bytes in   2 for packets in\n",
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
	station := w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
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

type fakeEndpointCard struct{ s endpoints.Snapshot }

func (f *fakeEndpointCard) Snapshot() endpoints.Snapshot { return f.s }

// endpointCard has another number in each place.
func endpointCard() *fakeEndpointCard {
	s := endpoints.Snapshot{
		Stats: endpoints.Stats{Sent: 1, Again: 2, Delivered: 3, Returned: 4, Refused: 5, Unroutable: 6, Loads: 7, Unloads: 8, Faults: 9, Turns: 10,
			BadEntries: 12, Privileged: 13, Forged: 15, Malformed: 16, Misdelivered: 17, Strangers: 18, NoRoute: 19, Unanswered: 20},
		Programs: 21, Endpoints: 22, Resident: 23, Frames: 24, Waiting: 25, Pinned: 26, Cards: 27, Posted: 28, Queued: 29, Answers: 30,
	}
	s.Card.Name, s.Stations, s.LongRoutes, s.Card.Stats.Interrupts = "bob0", 31, 32, 33
	s.Mapper = &mapper.Snapshot{Routes: 34}
	s.Receives.Duplicates, s.Receives.Stale = 35, 36
	for k := channels.NackResident; k <= channels.NackNoEndpoint; k++ {
		s.Stats.Nacked[k] = 40 + uint64(k-channels.NackResident)
	}
	return &fakeEndpointCard{s}
}

type fakeHost struct{ s vmmc.Snapshot }

func (f *fakeHost) Snapshot() vmmc.Snapshot { return f.s }

// vmmcHost is the same of a host whose card runs VMMC.
func vmmcHost() *fakeHost {
	s := vmmc.Snapshot{
		Mapped: true,
		Stats: vmmc.Stats{PacketsOut: 1, PacketsIn: 2, BytesOut: 3, BytesIn: 4, Chunks: 5, Misses: 6, Refills: 7, LinesCut: 8, Strange: 9, Stale: 10,
			TooSoon: 11, NoRoute: 12, Refused: 13, BadRequests: 14, BadProxies: 15, BadAddresses: 16, BadQueues: 17, RouteErrors: 18, Unanswered: 30},
		Nodes: 19, Frames: 20, Buffers: 21, ToDriver: 22, ToSend: 23,
		Processes: []vmmc.ProcessSnapshot{{Process: 1, Pinned: 24, Proxies: 25, Waiting: 26}, {Process: 2, Pinned: 1, Proxies: 1, Waiting: 1, Missing: true}},
	}
	s.Card.Name, s.LongRoutes, s.Sent.Again = "bob0", 27, 28
	s.Cable = &hardware.LivePort{Interface: "bob0", Up: true}
	return &fakeHost{s}
}

// TestProgramCards: cards that hold endpoints or run VMMC export what their programs have
// done, each number under its name, and what every card has; two at interfaces of one name
// are told apart, whatever they run.
func TestProgramCards(t *testing.T) {
	c := metrics.NewCollector(nil)
	forget := []func(){c.WatchEndpointCard(endpointCard()), c.WatchVMMCCard(vmmcHost()), c.WatchCard(card(true))}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range strings.Fields(`
		amcard_sent_messages_total=1 amcard_retransmissions_total=2 amcard_delivered_messages_total=3 amcard_loads_total=7 amcard_evictions_total=8
		amcard_faults_total=9 amcard_turns_total=10 amcard_programs=21 amcard_endpoints=22 amcard_resident_endpoints=23 amcard_frames=24
		amcard_waiting_endpoints=25 amcard_pinned_bytes=26 amcard_posted_messages=28 amcard_queued_messages=29 amcard_queued_answers=30
		amcard_duplicate_messages_total=35 card_stations=31 card_long_routes_total=32 card_interrupts_total=33 mapper_routes=34`) {
		name, value, _ := strings.Cut(want, "=")
		if want := "bobnet_" + name + `{card="bob0"} ` + value; !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, want := range strings.Fields(`
		amcard_returned_messages_total,unanswered=4 amcard_returned_messages_total,refused=5 amcard_returned_messages_total,no_route=6
		amcard_returned_messages_total,bad_entry=12 amcard_dropped_total,privileged=13 amcard_dropped_total,forged=15 amcard_dropped_total,malformed=16
		amcard_dropped_total,misdelivered=17 amcard_dropped_total,stranger=18 amcard_dropped_total,no_route=19 amcard_dropped_total,no_room=20 amcard_dropped_total,stale=36
		amcard_nacks_total,not_resident=40 amcard_nacks_total,overrun=41 amcard_nacks_total,not_pinned=42 amcard_nacks_total,tag=43 amcard_nacks_total,no_endpoint=44`) {
		wantReason(t, text, "bob0", want)
	}
	for _, want := range strings.Fields(`
		vmmccard_transmit_packets_total=1 vmmccard_receive_packets_total=2 vmmccard_transmit_memory_bytes_total=3 vmmccard_receive_memory_bytes_total=4
		vmmccard_chunks_total=5 vmmccard_tlb_misses_total=6 vmmccard_tlb_refills_total=7 vmmccard_lines_cut_total=8 vmmccard_misfit_routes_total=18
		vmmccard_nodes=19 vmmccard_writable_pages=20 vmmccard_busy_buffers=21 vmmccard_queued_messages=45 vmmccard_processes=2 vmmccard_pinned_pages=25
		vmmccard_proxy_pages=26 vmmccard_queued_requests=27 vmmccard_retransmissions_total=28 vmmccard_loaded=1 card_long_routes_total=27 card_cable_up=1`) {
		name, value, _ := strings.Cut(want, "=")
		if want := "bobnet_" + name + `{card="bob0#2"} ` + value; !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, want := range strings.Fields(`
		vmmccard_dropped_packets_total,strange=9 vmmccard_dropped_packets_total,stale=10 vmmccard_dropped_packets_total,too_soon=11
		vmmccard_dropped_packets_total,no_route=12 vmmccard_dropped_packets_total,no_room=30 vmmccard_dropped_packets_total,not_writable=13 vmmccard_refused_requests_total,too_long=14
		vmmccard_refused_requests_total,not_imported=15 vmmccard_refused_requests_total,not_its_memory=16 vmmccard_refused_requests_total,no_request=17`) {
		wantReason(t, text, "bob0#2", want)
	}
	if want := `bobnet_card_bad_doorbells_total{card="bob0#3"} 2`; !strings.Contains(text, want) || strings.Count(text, "\nbobnet_card_bad_doorbells_total{") != 1 {
		t.Errorf("no %s, or those of other cards", want)
	}
	for _, f := range forget {
		f()
	}
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("what was forgotten still exports %d metrics", n)
	}
}

// wantReason wants a counter by reason: name,reason=value.
func wantReason(t *testing.T, text, card, want string) {
	t.Helper()
	name, rest, _ := strings.Cut(want, ",")
	reason, value, _ := strings.Cut(rest, "=")
	if want := "bobnet_" + name + `{card="` + card + `",reason="` + reason + `"} ` + value; !strings.Contains(text, "\n"+want+"\n") {
		t.Errorf("no %s", want)
	}
}

// TestDumpOfProgramCards: such cards are in dumps, as text and as JSON.
func TestDumpOfProgramCards(t *testing.T) {
	c := metrics.NewCollector(nil)
	c.WatchEndpointCard(endpointCard())
	c.WatchVMMCCard(vmmcHost())
	_, _, text := fetch(t, c.DumpHandler(), "/debug/bobnet")
	for _, want := range []string{
		"AM-II  21 programs, 22 endpoints, 23 of them in 24 frames, 25 wait for one; pinned 26 bytes; cards 27\n",
		"faults 9, loads 7, evictions 8; turns 10", "sent 1, again 2, delivered 3; posted 28, queued 29, answers to send 30\n",
		"returned: unanswered 4, refused 5, no route 6, bad entries 12\n",
		"NACKs sent: not resident 40, overrun 41, not pinned 42, tag 43, no endpoint 44\n",
		"dropped: malformed 16, misdelivered 17, strangers 18, no route 19, no room for an answer 20; duplicates 35, stale 36; forged 15, privileged 13", "too long 32",
		"19 nodes, pages that others may write 20; buffers in use 21; for the driver 22, from it 23\n",
		"out 1 packets, 3 bytes; in 2 packets, 4 bytes in 5 chunks; sent again 28\n", "TLB misses 6, refills 7; lines cut 8\n",
		"requests refused: too long 14, not imported 15, other memory 16; queues without a request 17\n",
		"dropped: strange 9, stale 10, too soon 11, no route 12, no room for an answer 30, refused 13; tables that did not fit 18\n",
		"pinned 24 pages, proxy pages 25, requests that wait 26\n", "requests that wait 1, lacks a translation\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	status, _, text := fetch(t, c.DumpHandler(), "/debug/bobnet?format=json")
	for _, want := range []string{`"Resident": 23`, `"LongRoutes": 32`, `"Misses": 6`, `"Proxies": 25`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("no %q in, status %d,\n%s", want, status, text)
		}
	}
}

// TestDecodeDump: a program that gets a dump with cards of all kinds as JSON decodes it into a Dump.
func TestDecodeDump(t *testing.T) {
	c := metrics.NewCollector(nil)
	c.WatchEndpointCard(endpointCard())
	c.WatchVMMCCard(vmmcHost())
	c.WatchCard(card(true))
	text, err := json.Marshal(c.Dump())
	if err != nil {
		t.Fatal(err)
	}
	var d metrics.Dump
	if err := json.Unmarshal(text, &d); err != nil || len(d.Cards) != 3 {
		t.Errorf("%d cards, %v", len(d.Cards), err)
	}
	if _, err := d.WriteTo(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
}
