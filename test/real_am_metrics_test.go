package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/metrics"
)

// What rank 0 of a lab of active messages sends to rank 1, which answers all but
// those that name a handler that it has not.
const (
	amShort, amMedium, amBulk, amRefused = 40, 30, 20, 7

	amAnswered = amShort + amMedium + amBulk
	amBulkSize = 50_000
)

// The handlers.
const (
	hMetricsAsk = 1 + iota
	hMetricsBye
	hMetricsAnswer
	hMetricsNone
)

// checkNode compares counters and rates of a node of active messages, as they are
// after done, with what was sent: rank 0 is the client.
func (p *prometheus) checkNode(t *testing.T, instance string, rank int, done time.Time) {
	t.Helper()
	sent, received := 1., 0.
	if rank == 1 {
		sent, received = 0, 1
	}
	for _, m := range []struct {
		name, reason string
		want         float64
	}{
		{"requests_sent", "", sent * (amAnswered + amRefused)},
		{"reply_handlers", "", sent * amAnswered},
		{"refusals_heard", "", sent * amRefused},
		{"returned_messages", "bad_handler", sent * amRefused},
		{"returned_messages", "unreachable", 0},
		{"request_handlers", "", received * amAnswered},
		{"refused_messages", "bad_handler", received * amRefused},
		{"refused_messages", "bad_tag", 0},
		{"broken_connections", "", 0},
		{"stray_messages", "", 0},
		{"violations", "", 0},
		{"handler_panics", "", 0},
	} {
		labels := fmt.Sprintf(`instance="%s",rank="%d"`, instance, rank)
		if m.reason != "" {
			labels += fmt.Sprintf(`,reason="%s"`, m.reason)
		}
		p.checkCounter(t, fmt.Sprintf("bobnet_am_%s_total{%s}", m.name, labels), m.want, done)
	}
}

// movedMetrics have not stayed what they were.
var movedMetrics = []string{
	"am_requests_sent_total", "am_request_handlers_total", "am_reply_handlers_total", "am_returned_messages_total", "am_refused_messages_total", "am_refusals_heard_total",
	"vmmc_written_bytes_total", "vmmc_notifications_sent_total", "vmmc_handlers_total", "vmmc_refused_total", "rpc_calls_total", "daemon_processes",
}

// moves reports whether an expression is of one of them.
func moves(expr string) bool {
	for _, name := range movedMetrics {
		if strings.Contains(expr, "bobnet_"+name+"{") {
			return true
		}
	}
	return false
}

// messagesMetricsRole is a rank that serves metrics of a node of active messages.
func messagesMetricsRole(ctx context.Context) error {
	node, err := endpoint.Open(ctx, &endpoint.Config{Interface: config().Interface})
	if err != nil {
		return err
	}
	defer node.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(node.NIC())
	return serveMessages(ctx, node, collector)
}

// serveMessages sends or answers on a node.
func serveMessages(ctx context.Context, node *endpoint.Node, collector *metrics.Collector) error {
	collector.WatchNode(node)
	defer collector.DumpOnQuit(os.Stderr)()
	server, err := metrics.Serve(os.Getenv("BOBNET_METRICS"), collector)
	if err != nil {
		return err
	}
	defer server.Close()
	bundle, err := node.NewBundle(endpoint.Sequential)
	if err != nil {
		return err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(endpoint.TagAll)
	if config().Rank == 0 {
		c := &messagesClient{node: node, bundle: bundle, ep: ep}
		return c.run(ctx)
	}
	return answerMessages(ctx, bundle, ep)
}

// answerMessages answers until rank 0 has finished.
func answerMessages(ctx context.Context, bundle *endpoint.Bundle, ep *endpoint.Endpoint) error {
	asked, over := 0, false
	ep.SetSegment(make([]byte, amBulkSize))
	ep.SetHandler(hMetricsAsk, func(t endpoint.Token, _ []uint32, data []byte) {
		asked++
		t.ReplyMedium(hMetricsAnswer, data[:min(len(data), 100)])
	})
	ep.SetHandler(hMetricsBye, func(endpoint.Token, []uint32, []byte) { over = true })
	if err := ep.Publish(serverName); err != nil {
		return err
	}
	for told := false; !over; {
		if _, err := bundle.WaitPoll(ctx); err != nil {
			return err
		}
		if asked == amAnswered && !told {
			told = true
			if err := json.NewEncoder(os.Stdout).Encode(announcement{Rank: 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// messagesClient is rank 0.
type messagesClient struct {
	node     *endpoint.Node
	bundle   *endpoint.Bundle
	ep       *endpoint.Endpoint
	answered int
	returned int
}

func (c *messagesClient) run(ctx context.Context) error {
	c.ep.SetHandler(hMetricsAnswer, func(endpoint.Token, []uint32, []byte) { c.answered++ })
	c.ep.SetReturnHandler(func(*endpoint.Returned) { c.returned++ })
	server, err := c.node.Find(ctx, serverName)
	if err != nil {
		return err
	}
	if err := c.ep.Map(0, server, endpoint.TagAll); err != nil {
		return err
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil { // until it is told to
		return err
	}
	if err := c.ask(ctx); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(announcement{Rank: 0}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the test has scraped
		return err
	}
	return c.ep.Request(ctx, 0, hMetricsBye) // closing the node sees it there
}

// ask sends requests of each size, and those that are refused, and waits until
// all have ended.
func (c *messagesClient) ask(ctx context.Context) error {
	for _, m := range []struct {
		times int
		send  func() error
	}{
		{amShort, func() error { return c.ep.Request(ctx, 0, hMetricsAsk, 1, 2, 3) }},
		{amMedium, func() error { return c.ep.RequestMedium(ctx, 0, hMetricsAsk, make([]byte, 1000)) }},
		{amRefused, func() error { return c.ep.RequestMedium(ctx, 0, hMetricsNone, make([]byte, 1000)) }},
		{amBulk, func() error { return c.ep.RequestBulk(ctx, 0, hMetricsAsk, make([]byte, amBulkSize), 0) }},
	} {
		for range m.times {
			if err := m.send(); err != nil {
				return err
			}
		}
	}
	for c.answered+c.returned < amAnswered+amRefused {
		if _, err := c.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	return nil
}
