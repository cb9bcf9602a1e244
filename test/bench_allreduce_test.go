package test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/mplite"
)

// The rounds of one run of the benchmark.
const (
	allreduceRounds = 20
	allreduceOps    = 200 // in a round, of each kind
	tcpPort         = 4000
	addrsEnv        = "BOBNET_TEST_ADDRS" // the ranks' IP addresses
)

// round is what an allreduce took, in nanoseconds, in one round on rank 0.
type round struct{ MPLite, TCP float64 }

// BenchmarkAllreduceOversubscribed compares an allreduce of one float64 over
// MPLite with the same algorithm over blocking TCP sockets, on 4 ranks, in the
// same processes by turns. With less than 4 processors, waiting by polling
// costs other ranks their time: this is the benchmark of when not to.
//
//	go test ./test -run '^$' -bench AllreduceOversubscribed
//
// It reports the medians, and that of the rounds' ratios: tcp-ratio below 1
// means that MPLite is the faster.
func BenchmarkAllreduceOversubscribed(b *testing.B) {
	l := newLab(b, lab.Config{N: 4})
	addrs := make([]string, l.Size())
	for rank := range addrs {
		addrs[rank] = l.Addr(rank).String()
	}
	var mp, tcp, ratio []float64
	for b.Loop() {
		ranks := play(b, l, "allreduce", addrsEnv+"="+strings.Join(addrs, ","))
		for range allreduceRounds {
			var r round
			if err := json.Unmarshal([]byte(ranks[0].line(b)), &r); err != nil {
				b.Fatal(err)
			}
			mp, tcp, ratio = append(mp, r.MPLite), append(tcp, r.TCP), append(ratio, r.MPLite/r.TCP)
		}
		for _, p := range ranks {
			p.end(b)
		}
	}
	b.ReportMetric(0, "ns/op") // of starting processes: of no interest
	b.ReportMetric(median(mp)/1e3, "mplite-µs")
	b.ReportMetric(median(tcp)/1e3, "tcp-µs")
	b.ReportMetric(median(ratio), "tcp-ratio")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// allreduceRole is a rank of the benchmark.
func allreduceRole(ctx context.Context) error {
	comm, err := mplite.Init(ctx, nil)
	if err != nil {
		return err
	}
	mesh, err := dialMesh(ctx, comm, strings.Split(os.Getenv(addrsEnv), ","))
	if err != nil {
		return err
	}
	defer mesh.close()
	sum := mplite.Sum[float64]()
	overMPLite := func(v []float64) error { return mplite.Allreduce(ctx, comm, nil, v, sum) }
	if err := rounds(ctx, comm, overMPLite, mesh.allreduce); err != nil {
		return err
	}
	return comm.Finalize(ctx)
}

// rounds measures both by turns, and whichever was second in a round is first
// in the next.
func rounds(ctx context.Context, comm *mplite.Comm, mp, tcp func([]float64) error) error {
	enc := json.NewEncoder(os.Stdout)
	for i := range allreduceRounds {
		var r round
		turns := []func() error{
			func() (err error) { r.MPLite, err = measure(ctx, comm, mp); return err },
			func() (err error) { r.TCP, err = measure(ctx, comm, tcp); return err },
		}
		for k := range turns {
			if err := turns[(i+k)%2](); err != nil {
				return err
			}
		}
		if comm.Rank() != 0 {
			continue
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// measure returns what one call of allreduce takes, in nanoseconds. A few
// calls before let what waits adapt.
func measure(ctx context.Context, comm *mplite.Comm, allreduce func([]float64) error) (float64, error) {
	if err := comm.Barrier(ctx); err != nil {
		return 0, err
	}
	var start time.Time
	for i := range allreduceOps + allreduceOps/4 {
		if i == allreduceOps/4 {
			start = time.Now()
		}
		v := []float64{float64(comm.Rank() + i)}
		if err := allreduce(v); err != nil {
			return 0, err
		}
		if want := float64(comm.Size()*i + comm.Size()*(comm.Size()-1)/2); v[0] != want {
			return 0, fmt.Errorf("allreduce %d gives %v, want %v", i, v[0], want)
		}
	}
	return float64(time.Since(start)) / allreduceOps, nil
}

// tcpMesh is a TCP connection to every other rank, nil to oneself.
type tcpMesh struct {
	rank  int
	conns []net.Conn
}

// dialMesh connects every rank with every other: the higher one dials and says
// who it is. The number of ranks is a power of two.
func dialMesh(ctx context.Context, comm *mplite.Comm, addrs []string) (*tcpMesh, error) {
	m := &tcpMesh{rank: comm.Rank(), conns: make([]net.Conn, comm.Size())}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", tcpPort))
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	if err := comm.Barrier(ctx); err != nil { // all listen
		return nil, err
	}
	for rank := range m.rank {
		var d net.Dialer // which sets TCP_NODELAY
		c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", addrs[rank], tcpPort))
		if err != nil {
			return nil, err
		}
		m.conns[rank] = c
		if _, err := c.Write([]byte{byte(m.rank)}); err != nil {
			return nil, err
		}
	}
	for range comm.Size() - m.rank - 1 {
		c, err := listener.Accept()
		if err != nil {
			return nil, err
		}
		var who [1]byte
		if _, err := io.ReadFull(c, who[:]); err != nil {
			return nil, err
		}
		m.conns[who[0]] = c
	}
	return m, comm.Barrier(ctx)
}

// allreduce is recursive doubling, as MPLite does it for short vectors.
func (m *tcpMesh) allreduce(v []float64) error {
	var out, in [8]byte
	for k := 1; k < len(m.conns); k <<= 1 {
		c := m.conns[m.rank^k]
		binary.NativeEndian.PutUint64(out[:], math.Float64bits(v[0]))
		if _, err := c.Write(out[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, in[:]); err != nil {
			return err
		}
		v[0] += math.Float64frombits(binary.NativeEndian.Uint64(in[:]))
	}
	return nil
}

func (m *tcpMesh) close() (err error) {
	for _, c := range m.conns {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}
