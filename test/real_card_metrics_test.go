package test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vmmc"

	endpoints "github.com/bobnet-go/bobnet/endpoint/lanai"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
)

// messagesCardRole is messagesMetricsRole on a card.
func messagesCardRole(ctx context.Context) error {
	card, err := endpoints.Open(ctx, &endpoints.Config{Interface: config().Interface})
	if err != nil {
		return err
	}
	defer card.Close()
	node, err := endpoint.Open(ctx, &endpoint.Config{Card: card})
	if err != nil {
		return err
	}
	defer node.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchEndpointCard(card)
	return serveMessages(ctx, node, collector)
}

// processCardRole is processMetricsRole on a card.
func processCardRole(ctx context.Context) error {
	cfg := config()
	host, err := vmmccard.Open(ctx, &vmmccard.Config{Interface: cfg.Interface})
	if err != nil {
		return err
	}
	defer host.Close()
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: host, Process: uint32(cfg.Rank), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer p.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchVMMCCard(host)
	return serveWrites(ctx, p, cfg.Rank, collector)
}

// TestPrometheusCards lets a real Prometheus server scrape hosts with cards of all three
// control programs, joined by a cable, and their mappers: what it has is what was done.
func TestPrometheusCards(t *testing.T) {
	need.Long(t, "it takes half a minute; TestStoreSyncPrometheus starts a server, too")
	needPrometheus(t)
	fabric := filepath.Join(t.TempDir(), "cable")
	if err := os.WriteFile(fabric, []byte("host a b\nlink a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var labs []*labRun
	var servers []string
	for _, role := range []string{"am", "amcard", "vmmccard"} { // the first over NICs on plain cards
		r := serveLab(t, role, "--fabric", fabric)
		labs = append(labs, r)
		r.hear(t, r.serves)
		servers = append(servers, r.server)
	}
	p := startPrometheus(t, servers...)
	for _, r := range labs {
		if _, err := r.stdin.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range labs {
		r.hear(t, r.finished)
	}
	done := time.Now()
	for i, r := range labs {
		p.checkCards(t, instance(r))
		for rank := range 2 {
			p.checkProgram(t, i, instance(r), rank, done)
			checkMetrics(t, fmt.Sprintf("%s/rank/%d/metrics", r.server, rank))
		}
		r.end(t)
	}
}

// checkCards wants what all cards of a lab of two hosts have, and their mappers.
func (p *prometheus) checkCards(t *testing.T, instance string) {
	t.Helper()
	job := fmt.Sprintf(`instance="%s"`, instance)
	for _, want := range []string{
		"sum(bobnet_card_cable_up{%s}) == 2", "sum(bobnet_card_transmit_packets_total{%s}) > 100", "sum(bobnet_card_receive_packets_total{%s}) > 100",
		"sum(bobnet_card_stations{%s}) >= 2", "sum(bobnet_card_long_routes_total{%s}) == 0", `sum(bobnet_card_dropped_packets_total{%s,reason="crc"}) == 0`,
		"sum(bobnet_mapper_leading{%s}) == 1", "sum(bobnet_mapper_maps_total{%s}) >= 1", "sum(bobnet_map_hosts{%s}) == 2", "sum(bobnet_map_cables{%s}) == 1",
	} {
		p.await(t, fmt.Sprintf(want, job))
	}
}

// checkProgram wants what a rank's control program has done: that of lab 0 moves frames, of
// lab 1 active messages, of lab 2 what VMMC writes.
func (p *prometheus) checkProgram(t *testing.T, program int, instance string, rank int, done time.Time) {
	t.Helper()
	job := fmt.Sprintf(`instance="%s",rank="%d"`, instance, rank)
	counters := map[string]float64{}
	var others []string
	switch program {
	case 0:
		counters["card_bad_doorbells_total{%s}"] = 0
	case 1:
		for _, reason := range []string{"tag", "no_endpoint"} {
			counters[`amcard_nacks_total{%s,reason="`+reason+`"}`] = 0
		}
		for _, reason := range []string{"unanswered", "refused", "no_route", "bad_entry"} {
			counters[`amcard_returned_messages_total{%s,reason="`+reason+`"}`] = 0
		}
		counters[`amcard_dropped_total{%s,reason="forged"}`] = 0
		others = []string{"amcard_endpoints{%s} == 1", "amcard_resident_endpoints{%s} == 1", "amcard_programs{%s} == 1", "amcard_loads_total{%s} == 1",
			"amcard_evictions_total{%s} == 0", fmt.Sprintf("amcard_delivered_messages_total{%%s} >= %d", amAnswered), "amcard_faults_total{%s} >= 1",
			"amcard_retransmissions_total{%s} >= 0", "card_interrupts_total{%s} > 0", "amcard_posted_messages{%s} == 0", "amcard_queued_messages{%s} == 0"}
	case 2:
		for _, reason := range []string{"too_long", "not_imported", "not_its_memory", "no_request"} {
			counters[`vmmccard_refused_requests_total{%s,reason="`+reason+`"}`] = 0
		}
		counters[`vmmccard_dropped_packets_total{%s,reason="not_writable"}`] = 0
		counters["vmmccard_lines_cut_total{%s}"] = 0
		others = []string{"vmmccard_loaded{%s} == 1", "vmmccard_processes{%s} == 1", "vmmccard_nodes{%s} == 2", "vmmccard_writable_pages{%s} >= 1",
			"vmmccard_proxy_pages{%s} >= 1", "vmmccard_chunks_total{%s} > 0", "vmmccard_queued_requests{%s} == 0", "card_interrupts_total{%s} > 0"}
		if rank == 0 {
			others = append(others, fmt.Sprintf("vmmccard_transmit_memory_bytes_total{%%s} >= %d", 100*vmmcNotes))
		}
	}
	for name, want := range counters {
		p.checkCounter(t, fmt.Sprintf("bobnet_"+name, job), want, done)
	}
	for _, want := range others {
		p.await(t, fmt.Sprintf("bobnet_"+want, job))
	}
}
