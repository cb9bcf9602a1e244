package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// What rank 0 of a lab of VMMC does: it writes to the memory of rank 1, with a notification each
// time, tries to write past its end, and calls procedures there, some of which there are not. The
// connection for calls is made by one notification more.
const (
	vmmcNotes, vmmcPastEnd = 40, 20
	rpcCalls, rpcNoSuch    = 30, 5

	vmmcMetricsBoard, vmmcMetricsDoor = 1, 100
	vmmcMetricsBoardSize              = 4096
	vmmcMetricsProgram                = 0x20000b0c
	procCount, procGoodbye            = 1, 2
)

// checkProcess compares counters and rates of a process of VMMC, a server of remote procedures
// and a daemon, as they are after done, with what was done.
func (p *prometheus) checkProcess(t *testing.T, instance string, rank int, done time.Time) {
	t.Helper()
	sent, received := 1., 0.
	if rank == 1 {
		sent, received = 0, 1
	}
	type of struct {
		name, labels string
		want         float64
	}
	counters := []of{
		{"vmmc_refused", `,reason="past_end"`, sent * vmmcPastEnd},
		{"vmmc_refused", `,reason="policy"`, 0},
		{"vmmc_notifications_sent", "", sent * (vmmcNotes + 1)},
		{"vmmc_notifications_received", "", received * (vmmcNotes + 1)},
		{"vmmc_handlers", "", received * (vmmcNotes + 1)},
		{"vmmc_broken_connections", "", 0},
		{"daemon_deaths", "", 0},
		{"daemon_refused_processes", "", 0},
	}
	if rank == 1 {
		counters = append(counters, of{"rpc_calls", `,status="success"`, rpcCalls}, of{"rpc_calls", `,status="procedure_unavailable"`, rpcNoSuch},
			of{"rpc_connections", "", 1}, of{"rpc_broken_connections", "", 0})
	}
	job := fmt.Sprintf(`instance="%s",rank="%d"`, instance, rank)
	for _, m := range counters {
		p.checkCounter(t, fmt.Sprintf("bobnet_%s_total{%s%s}", m.name, job, m.labels), m.want, done)
	}
	p.await(t, fmt.Sprintf("bobnet_daemon_processes{%s} == 1", job))
}

// processMetricsRole is a rank that serves metrics of a process of VMMC, of the daemon of its
// node, and rank 1 those of a server of remote procedures.
func processMetricsRole(ctx context.Context) error {
	cfg := config()
	quiet := slog.New(slog.DiscardHandler)
	d, err := daemon.Open(ctx, &daemon.Config{VIPL: vipl.Config{Interface: cfg.Interface}, Logger: quiet})
	if err != nil {
		return err
	}
	defer d.Close()
	go d.Run(ctx)
	p, err := vmmc.Open(ctx, &vmmc.Config{Interface: cfg.Interface, Process: uint32(cfg.Rank), Logger: quiet})
	if err != nil {
		return err
	}
	defer p.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(p.NIC())
	collector.WatchDaemon(d)
	return serveWrites(ctx, p, cfg.Rank, collector)
}

// serveWrites has rank 0 write to rank 1 and call it.
func serveWrites(ctx context.Context, p *vmmc.Process, rank int, collector *metrics.Collector) error {
	collector.WatchProcess(p)
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	if rank == 1 {
		collector.WatchRPC(s)
	}
	defer collector.DumpOnQuit(os.Stderr)()
	server, err := metrics.Serve(os.Getenv("BOBNET_METRICS"), collector)
	if err != nil {
		return err
	}
	defer server.Close()
	if rank == 1 {
		return beWrittenTo(ctx, p, s)
	}
	return writeAndCall(ctx, p)
}

// beWrittenTo exports memory and answers calls until rank 0 says goodbye.
func beWrittenTo(ctx context.Context, p *vmmc.Process, s *vrpc.Server) error {
	var told, counted, goodbye uint32
	if _, err := p.Export(make([]byte, vmmcMetricsBoardSize), vmmcMetricsBoard, vmmc.Everybody, func(vmmc.Notification) { atomic.AddUint32(&told, 1) }); err != nil {
		return err
	}
	count := func(word *uint32) func(*vrpc.Call, *xdr.Void, *xdr.Void) error {
		return func(*vrpc.Call, *xdr.Void, *xdr.Void) error {
			atomic.AddUint32(word, 1)
			p.Wake()
			return nil
		}
	}
	err := s.Register(&vrpc.Program{Number: vmmcMetricsProgram, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(procCount, "COUNT", count(&counted)), vrpc.Proc(procGoodbye, "GOODBYE", count(&goodbye)),
	}})
	if err == nil {
		_, err = s.ListenVMMC(p, vmmcMetricsDoor, vmmc.Everybody)
	}
	if err == nil {
		err = p.Await(ctx, func() bool {
			return atomic.LoadUint32(&told) == vmmcNotes && atomic.LoadUint32(&counted) == rpcCalls
		})
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(announcement{Rank: 1})
	}
	if err == nil {
		err = p.Await(ctx, func() bool { return atomic.LoadUint32(&goodbye) > 0 })
	}
	return err
}

// writeAndCall is rank 0.
func writeAndCall(ctx context.Context, p *vmmc.Process) error {
	board, err := p.Import(ctx, vmmc.Name{Process: 1, ID: vmmcMetricsBoard})
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil { // until it is told to
		return err
	}
	note := make([]byte, 100)
	for range vmmcNotes {
		if err := p.SendMsgWithNotify(ctx, note, board.Addr()); err != nil {
			return err
		}
	}
	for range vmmcPastEnd {
		if err := p.SendMsg(ctx, note, board.Addr()+vmmcMetricsBoardSize-1); !errors.Is(err, vmmc.ErrProxy) {
			return fmt.Errorf("a write past the end ends with %w", err)
		}
	}
	owner := board.Owner()
	c, err := vrpc.DialVMMC(ctx, p, vmmc.Name{Node: owner.Node, Process: 1, ID: vmmcMetricsDoor}, vmmcMetricsProgram, 1, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for range rpcNoSuch {
		if err := c.Call(ctx, 99, xdr.Void{}, &xdr.Void{}); !errors.Is(err, vrpc.ProcUnavail) {
			return fmt.Errorf("a call of no procedure ends with %w", err)
		}
	}
	for range rpcCalls {
		if err := c.Call(ctx, procCount, xdr.Void{}, &xdr.Void{}); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(announcement{Rank: 0}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the test has scraped
		return err
	}
	return c.Call(ctx, procGoodbye, xdr.Void{}, &xdr.Void{})
}
